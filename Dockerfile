# One image for the head and for agents; docker-compose.yml says which one a container is.
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY requirements-container.lock requirements-dev.lock ./
RUN python3 -m venv /build && /build/bin/pip install --quiet --require-hashes -r requirements-dev.lock
RUN python3 -m venv /opt/rankd && /opt/rankd/bin/pip install --quiet --require-hashes -r requirements-container.lock
COPY pyproject.toml README.md CHANGELOG.md LICENSE ./
COPY config config
COPY daemon daemon
COPY migrations migrations
COPY plugins plugins
RUN /build/bin/python -m hatchling build -t wheel -d /wheel \
    && /opt/rankd/bin/pip install --quiet --no-deps /wheel/*.whl

FROM python:3.11-slim-bookworm
COPY --from=build /opt/rankd /opt/rankd
# The head runs as rankd. Jobs of an agent run as job, unless their user exists here.
RUN groupadd --system --gid 999 rankd \
    && useradd --system --uid 999 --gid rankd --create-home --home-dir /var/lib/rankd rankd \
    && useradd --create-home job \
    && install -d -m 700 -o rankd -g rankd /var/lib/rankd /var/lib/rankd-creds /var/lib/rankd-web \
       /var/lib/rankd-brokers /var/lib/rankd-brokers/b1 /var/lib/rankd-brokers/b2 /var/lib/rankd-brokers/b3 \
    && install -d -m 711 /var/lib/rankd-agent
ENV PATH=/opt/rankd/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    RANKD_CONFIG=/etc/rankd
COPY config /etc/rankd
USER rankd
WORKDIR /var/lib/rankd
ENTRYPOINT ["rankd"]
CMD ["--help"]
