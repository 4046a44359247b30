# One image for every app; which one is the command:
#   docker build -t tributary --build-arg COMMIT=$(git rev-parse HEAD) .
#   docker run tributary dist/apps/worker/main.js enrich,score,attribute
ARG NODE=node:24.11.1-bookworm-slim@sha256:48abc13a19400ca3985071e287bd405a1d99306770eb81d61202fb6b65cf0b57

FROM ${NODE} AS compiled
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
# No install script runs; those of the embedded servers would be the only ones.
RUN npm ci --ignore-scripts
COPY tsconfig.json topics.ts edges.ts topology.ts ./
COPY edges edges
COPY schemas schemas
COPY stream stream
COPY infra infra
COPY domain domain
COPY processors processors
COPY sinks sinks
COPY modules modules
COPY apps apps
COPY browser browser
COPY scripts/image.mjs scripts/pixel.mjs scripts/
# What the programs import: no embedded servers, no faults, no tests.
RUN node node_modules/typescript/bin/tsc -p tsconfig.json && node scripts/pixel.mjs && node scripts/image.mjs dist image

# The identity provider of the profile dev, which asks for no password: never in the image of the apps below.
FROM compiled AS dev
ENV DATA_FOLDER=/home/node/identity
RUN mkdir -p "${DATA_FOLDER}" && chown node:node "${DATA_FOLDER}"
USER node
ENTRYPOINT ["node", "--max-old-space-size=128", "dist/infra/embedded/servers/serve.js"]
CMD ["identity"]

FROM ${NODE} AS packages
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
# The optional packages are the embedded servers: an image has servers beside it.
RUN npm ci --ignore-scripts --omit=dev --omit=optional

FROM ${NODE}
WORKDIR /app
ENV NODE_ENV=production HOST=0.0.0.0 PORT=8080 OPS_PORT=9080 TRIBUTARY_HOME=/home/node/.tributary
RUN mkdir -p /home/node/.tributary/spool /home/node/.tributary/objects /home/node/.tributary/restarts && chown -R node:node /home/node/.tributary
COPY --from=packages /app/node_modules node_modules
# Zstandard for this platform is an optional package, and no embedded server.
COPY --from=compiled /app/node_modules/@toondepauw node_modules/@toondepauw
COPY --from=compiled /app/image dist
COPY package.json package-lock.json ./
COPY scripts/healthy.sh scripts/healthy.mjs scripts/
COPY migrations migrations
COPY apps/api/routes.yaml apps/api/routes.yaml
ARG COMMIT=unknown
RUN echo "${COMMIT}" > COMMIT
USER node
EXPOSE 8080 9080
# As x-probe of docker-compose.yml.
HEALTHCHECK --interval=2m --timeout=5s --retries=2 --start-period=3m --start-interval=2s CMD ["bash", "scripts/healthy.sh"]
# As modules/running/installation/product.ts starts ingest and workers.
ENTRYPOINT ["node", "--max-old-space-size=512", "--max-semi-space-size=64", "--initial-old-space-size=300", "--heap-growing-percent=300", "--no-minor-gc-task"]
CMD ["dist/apps/ingest/main.js"]
