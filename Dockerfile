# The coordinator. `docker compose up` runs it with PostgreSQL; docs/production.md says what to do next.
FROM python:3.13-slim
WORKDIR /parley
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir --constraint constraints.txt '.[server]' \
    && useradd --create-home parley && install -d -o parley /data
USER parley
WORKDIR /data
VOLUME /data
EXPOSE 8642
HEALTHCHECK CMD python -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8642/readyz', timeout=5)"
# --plain-http: this port is for a reverse proxy that ends TLS, or for the same machine.
ENTRYPOINT ["parley"]
CMD ["serve", "--host", "0.0.0.0", "--plain-http"]
