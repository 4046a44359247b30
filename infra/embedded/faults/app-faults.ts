// Apps that could not start: their code is missing, or a variable that they read is wrong.
import { existsSync } from "node:fs";
import { environmentProblems, variablesOfModule } from "../../runtime/environment.ts";
import { type App, chargeOfApp, missingModule, moduleOf } from "../app.ts";
import { appVariables, type Layout } from "../stack-layout.ts";

/** The lines of problems that an app would print before it ends. */
const problemsOf = (app: App, layout: Layout): readonly string[] => {
  const names = variablesOfModule(app.module);
  if (names === undefined) return [];
  const ofApp = app.login === undefined ? {} : appVariables(app.login, layout);
  const { place, ports, env, config } = layout;
  return environmentProblems(names, chargeOfApp(app, place, ports, { ...env, ...ofApp }, config).env());
};

/** A problem that several apps share is named once. */
export const appFaults = (layout: Layout): readonly string[] => {
  const { options, place } = layout;
  const apps = options.apps ?? [];
  const missing = apps.map((app) => moduleOf(app, place)).filter((file) => !existsSync(file));
  const readers = new Map<string, string[]>();
  for (const app of apps)
    for (const problem of problemsOf(app, layout)) readers.set(problem, [...(readers.get(problem) ?? []), app.name]);
  // The secret is that of the folder; every other variable that can be wrong is of the environment.
  const sourceOf = (problem: string): string =>
    problem.startsWith("TRIBUTARY_SECRET:") ? place.home.path("secrets.json") : "the environment of this command";
  return [
    ...new Set(missing.map(missingModule)),
    ...[...readers].map(
      ([problem, names]) => `${problem}; ${names.join(", ")} cannot start with it: correct it in ${sourceOf(problem)}.`,
    ),
  ];
};
