# One image for every process; the command selects which:
#
#   mqservice up                    all of them, with embedded databases unless URLs are set
#   python -m django migrate        creates the tables of this version, before the others start
#   python -m storage_engine        the engine        (MQ_ENGINE_STORE_DIR, MQ_ENGINE_SOCKET)
#   mqservice node                  engines of shards, in the image `cluster`   (DATABASE_URL, MQ_SHARDS, MQ_REPLICATED_LOG, ...)
#   python -m mqservice.web         one web process   (DATABASE_URL, VALKEY_URL, MQ_SECRET_KEY, ...)
#   celery -A mqservice worker -Q delay,control                      ticks and sweeps
#   celery -A mqservice worker -Q persist,sampling,tasks,alerts      everything else
#   celery -A mqservice worker -Q analytics -c 1                     nightly reports, in the image `analytics`
#   celery -A mqservice beat
#
# `make image` builds the service, `make image-analytics` adds Java and PySpark, half a GB, and `make image-cluster`
# what a replicated log needs; all work without a registry. So do `docker build .` and `docker build --target NAME .`.
# compose.yaml, compose.cluster.yaml and deploy/ run them.
#
# The secret `registries` is a shell file with the variables that pip, uv and apt need to reach their registries,
# `certificates` a file of trusted authorities, `apt` additional settings of apt. All are optional, and none is stored.

ARG BASE=debian:trixie-slim

FROM ${BASE} AS system
RUN --mount=type=secret,id=registries --mount=type=secret,id=certificates --mount=type=secret,id=apt \
    set -a && { [ ! -f /run/secrets/registries ] || . /run/secrets/registries; } \
    && apt-get update && apt-get upgrade --yes \
    && apt-get install --yes --no-install-recommends ca-certificates python3 tzdata \
    && apt-get clean && rm -rf /var/log/apt /var/log/dpkg.log /var/cache/debconf/*-old && rm -rf /var/lib/apt/lists/*

FROM system AS packages
COPY requirements-bootstrap.lock requirements.lock deploy/image/trim.sh /build/
# uv stays in this stage.
RUN --mount=type=secret,id=registries --mount=type=secret,id=certificates --mount=type=secret,id=apt \
    set -a && { [ ! -f /run/secrets/registries ] || . /run/secrets/registries; } \
    && apt-get update \
    && apt-get install --yes --no-install-recommends binutils python3-venv \
    && python3 -m venv /opt/tools \
    && /opt/tools/bin/python -m pip install --no-cache-dir --require-hashes -r /build/requirements-bootstrap.lock \
    && python3 -m venv --without-pip /opt/venv \
    && /opt/tools/bin/uv pip install --no-cache --compile-bytecode --python /opt/venv/bin/python --require-hashes -r /build/requirements.lock \
    && /build/trim.sh /opt/venv \
    && rm -rf /var/lib/apt/lists/*

FROM system AS base
RUN useradd --uid 10001 --create-home --shell /usr/sbin/nologin mqservice \
    && install -d -o mqservice -g mqservice -m 0700 /data
COPY --from=packages /opt/venv /opt/venv
COPY LICENSE NOTICE /usr/share/doc/mqservice/
COPY manage.py /app/
COPY mqservice /app/mqservice
COPY storage_engine /app/storage_engine
COPY analytics /app/analytics
COPY clients/python/mqservice_client /app/clients/python/mqservice_client
COPY docs /app/docs
COPY mkdocs.yml /app/
COPY frontend/locale /app/frontend/locale
COPY frontend/static /app/frontend/static
COPY frontend/templates /app/frontend/templates
RUN --mount=type=bind,source=.,target=/build \
    printf '#!/opt/venv/bin/python\nfrom mqservice.cli.main import app\n\napp()\n' > /opt/venv/bin/mqservice \
    && chmod 0755 /opt/venv/bin/mqservice \
    && printf '/app\n/app/clients/python\n' > "$(echo /opt/venv/lib/python3*/site-packages)/mqservice_checkout.pth" \
    && /opt/venv/bin/python -m compileall -q /app \
    && /opt/venv/bin/python /build/deploy/image/sbom.py /build/requirements.lock > /usr/share/doc/mqservice/sbom.cdx.json
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    DJANGO_SETTINGS_MODULE=mqservice.settings \
    MQ_DATA_DIR=/data \
    MQ_ENGINE_STORE_DIR=/data/store \
    MQ_BIND=0.0.0.0
# `make image` adds version, revision, source and the digest of the base.
LABEL org.opencontainers.image.title="mqservice" \
    org.opencontainers.image.description="A managed message queue over REST and WebSocket" \
    org.opencontainers.image.licenses="Apache-2.0"
USER mqservice
WORKDIR /data
VOLUME /data
EXPOSE 8000
STOPSIGNAL SIGTERM
# For `mqservice up` and web processes; compose.yaml has the checks of its other processes.
HEALTHCHECK --interval=5s --timeout=5s --start-period=120s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as u; u.urlopen(f\"http://127.0.0.1:{os.environ.get('MQ_PORT', 8000)}/readyz\", timeout=3)"]
CMD ["mqservice", "up"]

FROM base AS analytics
USER root
# Java's package links its manual pages and fails if their directory is missing, as in slim images.
RUN --mount=type=bind,source=.,target=/build --mount=type=bind,from=packages,source=/opt/tools,target=/opt/tools \
    --mount=type=secret,id=registries --mount=type=secret,id=certificates --mount=type=secret,id=apt \
    set -a && { [ ! -f /run/secrets/registries ] || . /run/secrets/registries; } \
    && mkdir -p /usr/share/man/man1 \
    && apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-21-jre-headless \
    && /opt/tools/bin/uv pip install --no-cache --compile-bytecode --python /opt/venv/bin/python --require-hashes -r /build/requirements-analytics.lock \
    && /opt/venv/bin/python /build/deploy/image/sbom.py /build/requirements-analytics.lock > /usr/share/doc/mqservice/sbom.cdx.json \
    && apt-get clean && rm -rf /var/log/apt /var/log/dpkg.log /var/cache/debconf/*-old && rm -rf /var/lib/apt/lists/*
USER mqservice
HEALTHCHECK NONE
CMD ["celery", "-A", "mqservice", "worker", "--hostname=analytics@%h", "--queues=analytics", "--concurrency=1"]

# What a replicated log needs beside the service: the libraries of object stores and of Kafka.
FROM base AS cluster
USER root
RUN --mount=type=bind,source=.,target=/build --mount=type=bind,from=packages,source=/opt/tools,target=/opt/tools \
    --mount=type=secret,id=registries --mount=type=secret,id=certificates \
    set -a && { [ ! -f /run/secrets/registries ] || . /run/secrets/registries; } \
    && /opt/tools/bin/uv pip install --no-cache --compile-bytecode --python /opt/venv/bin/python --require-hashes -r /build/requirements-cluster.lock \
    && /opt/venv/bin/python /build/deploy/image/sbom.py /build/requirements-cluster.lock > /usr/share/doc/mqservice/sbom.cdx.json
USER mqservice

# The default target.
FROM base AS service
