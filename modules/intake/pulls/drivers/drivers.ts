// Every driver by the name in `sources.pull`, and the schema of these settings.
import { z } from "zod";
import type { PullDriver } from "./driver.ts";
import { mmp } from "./mmp.ts";

const drivers = { mmp } as const satisfies Readonly<Record<string, PullDriver>>;
export type DriverName = keyof typeof drivers;

const LOOK_BACK_DAYS = 1;
/**
 * `sources.pull`: which driver fetches from which address, and how many days it looks back each
 * time.
 */
export const pullSettings = z.strictObject({
  driver: z.enum(Object.keys(drivers) as [DriverName]),
  url: z.url({ protocol: /^https?$/ }).max(2_048),
  look_back_days: z.number().int().min(0).max(30).default(LOOK_BACK_DAYS),
});
export type PullSettings = z.infer<typeof pullSettings>;

export const driverNamed = (name: DriverName): PullDriver => drivers[name];
