-- Whole requests in turn: MQ_BENCH_REQUESTS names a file of "LENGTH\n" and so many bytes, repeated.

local file = assert(io.open(os.getenv("MQ_BENCH_REQUESTS"), "rb"))
local requests = {}
while true do
  local length = file:read("*n")
  if not length then break end
  file:read(1)
  requests[#requests + 1] = file:read(length)
end
file:close()

local at = 0
function request()
  at = at % #requests + 1
  return requests[at]
end

-- One line of JSON at the end, which is all that the caller reads.
function done(summary, latency, requests)
  io.write(string.format(
    '\nRESULT {"requests":%d,"duration_us":%d,"errors_status":%d,"errors_socket":%d,' ..
      '"p50_us":%d,"p99_us":%d,"max_us":%d}\n',
    summary.requests, summary.duration, summary.errors.status,
    summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout,
    latency:percentile(50), latency:percentile(99), latency.max))
end
