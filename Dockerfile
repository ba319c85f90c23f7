FROM python:3.11-slim

ENV PYTHONUNBUFFERED=1 \
    ONEPASS_CACHE_DIR=/opt/onepass/cache

# Dependencies before sources: an edit of ours does not install them again.
WORKDIR /src
COPY requirements-runtime.lock ./
RUN pip install --no-cache-dir --require-hashes -r requirements-runtime.lock
COPY pyproject.toml README.md LICENSE ./
COPY learners learners
COPY service service
RUN pip install --no-cache-dir --no-deps --no-build-isolation .

# The user owns the kernel cache: numba uses only a folder it can write to, and on another CPU it compiles again.
RUN install --directory --owner=10001 --group=10001 "$ONEPASS_CACHE_DIR"
USER 10001:10001

# Away from /src, so that the kernels are those of the installed package, which is what `onepass` runs. This is
# `python -m learners.warmup` with numba's cache folder set first, as `onepass` sets it: learners do not know of it.
WORKDIR /opt/onepass
RUN python -c "import runpy; from service.kernel_cache import use_kernel_cache; use_kernel_cache(); runpy.run_module('learners.warmup', run_name='__main__')"

EXPOSE 8000
# Alive, not ready: a model that is still catching up is no reason to restart it. Never by a proxy from the environment.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "from urllib.request import ProxyHandler, build_opener; build_opener(ProxyHandler({})).open('http://127.0.0.1:8000/healthz', timeout=4)"]

ENTRYPOINT ["onepass"]
CMD ["run", "--config", "/etc/onepass/config.yaml"]
