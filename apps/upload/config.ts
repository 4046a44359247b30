// The only reader of the environment in the app of uploads.
import { type Environment, edgeVariables, readEnvironment } from "../../infra/runtime/environment.ts";

export type Config = Environment<(typeof edgeVariables)[number]>;

/** Throws one Error naming every variable that is missing or wrong. */
export const readConfig = (env: Readonly<Record<string, string | undefined>> = process.env): Config =>
  readEnvironment("upload", edgeVariables, env);
