// The facts of an edge about a client, by its id.
import { expect, test } from "vitest";
import { Unavailable } from "../../infra/runtime/errors.ts";
import { clientFactsOf } from "../../modules/intake/path/facts.ts";
import { client, clientId, noon, referenceWith } from "../support/builders.ts";

const pepper = () => "pepper";

test("a client has its facts, one that is archived is null, one that there is not is undefined", () => {
  const clients = [client({ jurisdiction: "EU" }), client({ client_id: 99, status: "archived" })];
  const ask = clientFactsOf(pepper, () => referenceWith({ clients }));
  expect(ask(clientId, noon)).toMatchObject({ clientId, consentDefault: 0 });
  expect([ask(99, noon), ask(98, noon)]).toEqual([null, undefined]);
});

test("before the first picture nothing is said", () => {
  const ask = clientFactsOf(pepper, () => undefined);
  expect(() => ask(clientId, noon)).toThrow(Unavailable);
});
