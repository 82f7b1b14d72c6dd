FROM python:3.12-slim

WORKDIR /srv/layby
COPY pyproject.toml constraints.txt README.md ./
COPY eventstore eventstore
COPY projections projections
COPY api api
COPY cli cli
RUN pip install --no-cache-dir --constraint constraints.txt .

# The embedded engine's data, for a container that is given no LAYBY_REDIS_URL.
RUN useradd --uid 10001 --no-create-home layby && install -d -o layby -m 0700 /var/lib/layby
ENV LAYBY_DATA_DIR=/var/lib/layby
USER layby
STOPSIGNAL SIGTERM
ENTRYPOINT ["layby"]
CMD ["serve"]
