# Images of the coordinator (the default), an agent and a site:
#
#     docker build --target coordinator --tag parley-coordinator .
#     docker build --target agent --tag parley-agent .
#     docker build --target site --tag parley-site .
#
# Each holds only its own extra, under the pins of constraints.txt, and runs as user 10001 without any right to change its
# own program: everything that a process writes is in /data, so the rest may be mounted read-only. docs/install.md says how.
FROM python:3.13-slim AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /parley
RUN python -m venv /opt/parley
ENV PATH=/opt/parley/bin:$PATH
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
# What all three share, in one layer of the cache.
RUN pip install --constraint constraints.txt .

FROM build AS build-coordinator
# `agent` is what `parley admin` and `parley qualify` talk to a coordinator with.
RUN pip install --constraint constraints.txt '.[server,agent,timestamps,oidc]'

FROM build AS build-agent
RUN pip install --constraint constraints.txt '.[agent,privacy]'

FROM build AS build-site
RUN pip install --constraint constraints.txt '.[site,privacy]'

FROM python:3.13-slim AS base
ENV PATH=/opt/parley/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
RUN useradd --uid 10001 --create-home parley && install -d -o parley -g parley -m 700 /data
USER 10001
WORKDIR /data
VOLUME /data
ENTRYPOINT ["parley"]

# It calls the coordinator and listens nowhere; the outbox in /data must outlive the container.
FROM base AS agent
COPY --from=build-agent /opt/parley /opt/parley
ENV PARLEY_OUTBOX=/data/outbox
CMD ["agent", "--help"]

FROM base AS site
COPY --from=build-site /opt/parley /opt/parley
ENV PARLEY_OUTBOX=/data/outbox
EXPOSE 8643
HEALTHCHECK CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8643/healthz', timeout=5)"]
# --plain-http: this port is for a reverse proxy that ends TLS, or for the same machine.
CMD ["site", "--host", "0.0.0.0", "--plain-http"]

FROM base AS coordinator
COPY --from=build-coordinator /opt/parley /opt/parley
EXPOSE 8642
HEALTHCHECK CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8642/readyz', timeout=5)"]
CMD ["serve", "--host", "0.0.0.0", "--plain-http"]
