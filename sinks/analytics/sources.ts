// Where each column of the analytics table comes from: a field of the event, or its envelope.
import { type Sources, sourcesOf } from "../../infra/clickhouse/sources.ts";
import type { EventAttributed } from "../../schemas/generated.ts";
import { type eventColumns, fieldSources } from "./generated.ts";

const { made } = sourcesOf<EventAttributed>();

export const eventSources: Sources<EventAttributed, typeof eventColumns> = {
  ...fieldSources,
  received_at: made(({ receivedAt }) => receivedAt),
  log_offset: made(({ position }) => position.offset),
};
