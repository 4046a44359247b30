// The two doors of a use case: the platform API and the command line. Both refuse with the same
// words.
import { expect, test } from "vitest";
import { saveRecords } from "../../apps/cli/commands/reference/save-records.ts";
import { RefusalError } from "../../modules/base/refusal.ts";
import type { Kind } from "../../modules/catalog/reference/newest-records.ts";
import type { apiSuite } from "./api-suite.ts";

export interface Shop {
  readonly client: number;
  readonly partner: number;
}
export interface Case {
  readonly code: string;
  /** Makes the state before the request. */
  readonly given: () => Promise<Shop>;
  /** The request of the platform API. */
  readonly request: (shop: Shop) => readonly [method: string, path: string, body: object];
  /** The entry of `tributary reference save`. */
  readonly entry?: (shop: Shop) => readonly [Kind, object];
  /** Runs another command instead. */
  readonly command?: (shop: Shop) => Promise<unknown>;
}

const act = { actor: "ana@cli", role: "operator", request_id: "cli-test", ip: null };

type Answer = Awaited<ReturnType<ReturnType<typeof apiSuite>["send"]>>;

/** The error of `run`; undefined if it succeeded. */
export const thrownBy = (run: () => Promise<unknown>): Promise<unknown> =>
  run().then(
    () => undefined,
    (error: unknown) => error,
  );

/**
 * Expects that the command line threw the code, place and words of the API's answer. `placeOf` maps
 * a path of the use case's input to its place in the request.
 */
export const expectSame = (
  code: string,
  answer: Answer,
  thrown: unknown,
  placeOf: (path: string) => string = (path) => path,
): void => {
  if (!(thrown instanceof RefusalError)) throw thrown ?? new Error(`the command line did it: ${answer.text}`);
  const [refusal] = thrown.refusals;
  const [problem] = answer.body.errors ?? [];
  expect(refusal!.code, refusal!.message).toBe(code);
  expect([problem?.code ?? answer.body.code, answer.body.detail]).toEqual([refusal!.code, refusal!.message]);
  expect(placeOf(refusal!.path)).toBe(problem?.pointer ?? "");
};

export const twoDoors = ({ pool, send, fresh }: Pick<ReturnType<typeof apiSuite>, "pool" | "send" | "fresh">) => {
  /** The body of the platform API's answer to a POST that makes a record. */
  const created = async (path: string, body: object) => {
    const answer = await send("POST", path, body);
    expect([200, 201], answer.text).toContain(answer.status);
    return answer.body;
  };
  /** Saves an entry with the command line. */
  const save = (kind: Kind, entry: object) => saveRecords(pool, kind, [entry], { act, isSaved: true });

  const newShop = async (): Promise<Shop> => {
    const { id: client } = await created("/api/clients", { name: "A shop", slug: fresh("s") });
    const { id: partner } = await created("/api/partners", {
      ...{ name: "A partner", email: `${fresh("p")}@partner.example`, client_ids: [client] },
    });
    return { client, partner };
  };
  /** A new shop on which `step` has run. */
  const shopAfter = (step: (shop: Shop) => Promise<unknown>) => async (): Promise<Shop> => {
    const shop = await newShop();
    await step(shop);
    return shop;
  };
  /** Archives the record at this path; :partner and :client are replaced by those of the shop. */
  const archived = (path: string) => async (shop: Shop) => {
    const { status } = await send(
      "DELETE",
      path.replace(":partner", `${shop.partner}`).replace(":client", `${shop.client}`),
    );
    expect(status).toBe(204);
  };

  /** One test a case: both doors answer with the same code, words and place. */
  const refusesAlike = (cases: readonly Case[]): void =>
    test.each(cases)("$code", async ({ code, given, request, entry, command }) => {
      const shop = await given();
      const answer = await send(...request(shop));
      const thrown = await thrownBy(() => (entry === undefined ? command!(shop) : save(...entry(shop))));
      // The path of an error begins with the entry's place in the file.
      const placeOf = (path: string): string => (entry === undefined ? path : path.replace(/^\/\w+\/0/, ""));
      expectSame(code, answer, thrown, placeOf);
    });
  return { created, save, newShop, shopAfter, archived, refusesAlike };
};
