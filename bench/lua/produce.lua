-- One message a request: POST of a raw body or of JSON, whatever the environment says.
-- MQ_BENCH_BODY names a file with the request's body, MQ_BENCH_TYPE its content type.

local file = assert(io.open(os.getenv("MQ_BENCH_BODY"), "rb"))
wrk.method = "POST"
wrk.body = file:read("*a")
file:close()
wrk.headers["content-type"] = os.getenv("MQ_BENCH_TYPE")
wrk.headers["authorization"] = "Bearer " .. os.getenv("MQ_BENCH_KEY")

-- One line of JSON at the end, which is all that the caller reads.
function done(summary, latency, requests)
  io.write(string.format(
    '\nRESULT {"requests":%d,"duration_us":%d,"errors_status":%d,"errors_socket":%d,' ..
      '"p50_us":%d,"p99_us":%d,"max_us":%d}\n',
    summary.requests, summary.duration, summary.errors.status,
    summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout,
    latency:percentile(50), latency:percentile(99), latency.max))
end
