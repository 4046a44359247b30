// Computes all waiting rollups in one go; a keeper does the same work in turns.
import type { Pool } from "pg";
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import { takeHours, takeMarks } from "./rollup-marks.ts";
import { computeHours, computeMinutes } from "./rollups.ts";

/**
 * Computes `most` hours at once. Skips work that another process is doing. Throws the error of a
 * store.
 */
export const computeWaiting = async (pool: Pool, clickhouse: Clickhouse, most: number): Promise<void> => {
  while (Number(await takeMarks(pool, most, (marks) => computeMinutes(clickhouse, marks))) > 0);
  while (Number(await takeHours(pool, { most }, (hours) => computeHours(clickhouse, hours))) > 0);
};
