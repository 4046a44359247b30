// The only reader of the environment in the keeper.
import { type Environment, readEnvironment, variablesOf } from "../../infra/runtime/environment.ts";

export type Config = Environment<(typeof variablesOf.keeper)[number]>;

/** Throws one Error that names every variable that is missing or wrong. */
export const readConfig = (env: Readonly<Record<string, string | undefined>> = process.env): Config =>
  readEnvironment("the keeper", variablesOf.keeper, env);
