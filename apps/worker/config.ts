// The only reader of the environment in the worker.
import { type Environment, readEnvironment, variablesOf } from "../../infra/runtime/environment.ts";

export type Config = Environment<(typeof variablesOf.worker)[number]>;

/** Throws one Error that names every variable that is missing or wrong. */
export const readConfig = (env: Readonly<Record<string, string | undefined>> = process.env): Config =>
  readEnvironment("the worker", variablesOf.worker, env);
