# One image for every process; the command selects which:
#
#   mqservice up                           all of them, with embedded databases unless URLs are given
#   python -m storage_engine               the engine        (MQ_ENGINE_STORE_DIR, MQ_ENGINE_SOCKET)
#   python -m mqservice.web                one web worker    (DATABASE_URL, VALKEY_URL, MQ_SECRET_KEY, …)
#   celery -A mqservice worker -Q control,delay,persist,analytics
#   celery -A mqservice beat
#   python manage.py migrate

FROM python:3.11-slim AS packages
COPY requirements-bootstrap.lock requirements.lock /build/
RUN python -m venv /opt/venv \
    && /opt/venv/bin/python -m pip install --no-cache-dir --require-hashes -r /build/requirements-bootstrap.lock \
    && /opt/venv/bin/uv pip install --no-cache --python /opt/venv/bin/python --require-hashes -r /build/requirements.lock

FROM python:3.11-slim
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
    MQ_DATA_DIR=/data \
    MQ_BIND=0.0.0.0
USER mqservice
WORKDIR /data
VOLUME /data
EXPOSE 8000
STOPSIGNAL SIGTERM
CMD ["mqservice", "up"]
