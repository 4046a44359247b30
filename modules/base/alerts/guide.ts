// What an outage of a component means, and what to type first: for mails and commands.

export interface OutageGuide {
  /** Its name for people. */
  readonly name: string;
  /** What stands still meanwhile, and what goes on. */
  readonly effect: string;
  /** The command that shows where it hurts. */
  readonly command: string;
  readonly page: string;
}

const guides: Readonly<Record<string, OutageGuide>> = {
  analytics_store: {
    name: "ClickHouse",
    effect: "reports and dashboards show what was stored before; events wait in the log, and none is lost",
    command: "npx tributary lag",
    page: "docs/runbooks/clickhouse-lost.md",
  },
  cache_store: {
    name: "Redis",
    effect: "enrich and attribute wait, so nothing new is credited; edges answer, and each limits rates alone",
    command: "npx tributary lag",
    page: "docs/runbooks/redis-lost.md",
  },
  object_store: {
    name: "object storage",
    effect: "the archive and uploads wait, and an edge whose disk is full refuses events",
    command: "npx tributary archive",
    page: "docs/archive.md",
  },
  relational_store: {
    name: "Postgres",
    effect: "money, portal and API wait; edges answer those whom they know, and none of their events is lost",
    command: "npx tributary doctor",
    page: "docs/runbooks/postgres-down.md",
  },
  event_log: {
    name: "Kafka",
    effect: "edges keep events on their own disks and answer; nothing is processed until it is back",
    command: "npx tributary status",
    page: "docs/runbooks/broker-lost.md",
  },
  event_processing: {
    name: "event processing",
    effect: "what the named group does is not done until it moves again; its records wait in the log, and none is lost",
    command: "npx tributary lag",
    page: "docs/operate.md#a-group-stands",
  },
  ingest: {
    name: "the edges",
    effect: "senders get 503 and repeat, or their events wait in object storage",
    command: "npx tributary status",
    page: "docs/runbooks/full-disk.md",
  },
};

/** Undefined for a component of another system. */
export const guideOf = (service: string): OutageGuide | undefined =>
  Object.hasOwn(guides, service) ? guides[service] : undefined;
