// Reads the environment of the platform API; no other file of it does.
import { type Environment, readEnvironment, variablesOf } from "../../infra/runtime/environment.ts";

export type Config = Environment<(typeof variablesOf.api)[number]>;

/** Throws one Error that names every variable that is missing or wrong. */
export const readConfig = (env: Readonly<Record<string, string | undefined>> = process.env): Config =>
  readEnvironment("the platform API", variablesOf.api, env);
