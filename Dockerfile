# One image for every process; the command selects which:
#
#   mqservice up                    all of them, with embedded databases unless URLs are given
#   python -m django migrate        tables of this version, before the others start
#   python -m storage_engine        the engine        (MQ_ENGINE_STORE_DIR, MQ_ENGINE_SOCKET)
#   python -m mqservice.web         one web process   (DATABASE_URL, VALKEY_URL, MQ_SECRET_KEY, ...)
#   celery -A mqservice worker -Q delay,control                      ticks and sweeps
#   celery -A mqservice worker -Q persist,sampling,tasks,alerts      everything else
#   celery -A mqservice worker -Q analytics -c 1                     nightly reports, in the image `analytics`
#   celery -A mqservice beat
#
# `docker build .` makes the service; `docker build --target analytics .` adds Java and PySpark, half a GB.
# compose.yaml and deploy/ run it.

FROM python:3.11-slim-trixie AS packages
COPY requirements-bootstrap.lock requirements.lock /build/
RUN python -m venv /opt/venv \
    && /opt/venv/bin/python -m pip install --no-cache-dir --require-hashes -r /build/requirements-bootstrap.lock \
    && /opt/venv/bin/uv pip install --no-cache --compile-bytecode --python /opt/venv/bin/python --require-hashes -r /build/requirements.lock

FROM python:3.11-slim-trixie AS base
RUN useradd --uid 10001 --create-home --shell /usr/sbin/nologin mqservice \
    && install -d -o mqservice -g mqservice -m 0700 /data
COPY --from=packages /opt/venv /opt/venv
COPY manage.py /app/
COPY mqservice /app/mqservice
COPY storage_engine /app/storage_engine
COPY analytics /app/analytics
COPY frontend /app/frontend
RUN printf '#!/opt/venv/bin/python\nfrom mqservice.cli.main import app\n\napp()\n' > /opt/venv/bin/mqservice \
    && chmod 0755 /opt/venv/bin/mqservice \
    && echo /app > /opt/venv/lib/python3.11/site-packages/mqservice_checkout.pth \
    && /opt/venv/bin/python -m compileall -q /app
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    DJANGO_SETTINGS_MODULE=mqservice.settings \
    MQ_DATA_DIR=/data \
    MQ_ENGINE_STORE_DIR=/data/store \
    MQ_BIND=0.0.0.0
USER mqservice
WORKDIR /data
VOLUME /data
EXPOSE 8000
STOPSIGNAL SIGTERM
CMD ["mqservice", "up"]

FROM base AS analytics
USER root
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-21-jre-headless \
    && rm -rf /var/lib/apt/lists/*
COPY requirements-bootstrap.lock requirements-analytics.lock /build/
RUN /opt/venv/bin/python -m pip install --no-cache-dir --require-hashes -r /build/requirements-bootstrap.lock \
    && /opt/venv/bin/uv pip install --no-cache --compile-bytecode --python /opt/venv/bin/python --require-hashes -r /build/requirements-analytics.lock
USER mqservice
CMD ["celery", "-A", "mqservice", "worker", "--hostname=analytics@%h", "--queues=analytics", "--concurrency=1"]

# What is built when nothing is said.
FROM base AS service
