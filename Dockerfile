# CPU by default; `docker build --build-arg EXTRA=gpu .` for CUDA machines.
FROM python:3.11-slim-bookworm AS build
ARG EXTRA=cpu
# Plain pip would bring the CUDA build of torch and its libraries even where there is no GPU.
ARG TORCH_CPU_INDEX=https://download.pytorch.org/whl/cpu
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
RUN python -m venv /opt/lectern
COPY . .
RUN if [ "$EXTRA" = cpu ]; then export PIP_EXTRA_INDEX_URL="$TORCH_CPU_INDEX"; fi \
    && /opt/lectern/bin/pip install -c constraints.txt ".[$EXTRA]"

FROM python:3.11-slim-bookworm
RUN useradd --system --uid 10001 --home-dir /data --shell /usr/sbin/nologin lectern \
    && install -d -o lectern -g lectern /data
COPY --from=build /opt/lectern /opt/lectern
ENV PATH=/opt/lectern/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    LECTERN_DATA_DIR=/data \
    LECTERN_SERVER__HOST=0.0.0.0 \
    LECTERN_LOG_JSON=true
USER lectern
WORKDIR /data
VOLUME /data
EXPOSE 8080
CMD ["lectern", "serve"]
