// A linked list has the members of a Set in the same order, and keeps nothing of removed members.
import fc from "fast-check";
import { expect, test } from "vitest";
import { LinkedList, type ListLinks } from "../../infra/runtime/timing/under-way.ts";

interface Member extends ListLinks<Member> {
  readonly n: number;
}
const member = (n: number): Member => ({ n, before: undefined, behind: undefined });

test("members come and go as those of a Set, which stays in order", () => {
  fc.assert(
    fc.property(fc.array(fc.nat(7), { maxLength: 60 }), (toggled) => {
      const members = Array.from({ length: 8 }, (_, n) => member(n));
      const list = new LinkedList<Member>();
      const set = new Set<Member>();
      for (const n of toggled) {
        const one = members[n]!;
        if (set.delete(one)) list.remove(one);
        else {
          set.add(one);
          list.add(one);
        }
        expect([...list].map(({ n: is }) => is)).toEqual([...set].map(({ n: is }) => is));
        expect(list.first).toBe([...set][0]);
      }
      for (const one of members)
        if (!set.has(one))
          expect([one.before, one.behind], "what has left points nowhere").toEqual([undefined, undefined]);
    }),
  );
});

test("the one that is being looked at may be removed", () => {
  const list = new LinkedList<Member>();
  for (let n = 0; n < 5; n += 1) list.add(member(n));
  const seen: number[] = [];
  for (const one of list) {
    seen.push(one.n);
    if (one.n % 2 === 0) list.remove(one);
  }
  expect(seen).toEqual([0, 1, 2, 3, 4]);
  expect([...list].map(({ n }) => n)).toEqual([1, 3]);
});
