// Lists all fields of an answer for a role, nested ones too, and which of them are masked.
import { z } from "zod";
import type { Role } from "../../../modules/access/users/users.ts";
import { answerOf, type Contract } from "./contract.ts";
import { masked, maskedEmail } from "./fields.ts";

export interface ShownField {
  /** E.g. `lines[].commission.amount`; `*` stands for any field that a module adds. */
  readonly path: string;
  readonly isMasked: boolean;
}

/** The fields that this role sees, of the answer or of a row of the list. */
export const shownTo = ({ answers, list }: Contract, role: Role | undefined): readonly ShownField[] =>
  within(answerOf(list?.rows ?? answers, role), "");

const within = (schema: unknown, path: string): readonly ShownField[] => {
  const here = (isMasked: boolean): readonly ShownField[] => (path === "" ? [] : [{ path, isMasked }]);
  if (schema === masked || schema === maskedEmail) return here(true);
  if (schema instanceof z.ZodNullable || schema instanceof z.ZodOptional) return within(schema.unwrap(), path);
  if (schema instanceof z.ZodArray) return within(schema.element, `${path}[]`);
  if (schema instanceof z.ZodRecord) return within(schema.valueType, joined(path, "{}"));
  if (schema instanceof z.ZodUnion) return distinct(schema.options.flatMap((option) => within(option, path)));
  if (!(schema instanceof z.ZodObject)) return here(false);
  const fields = Object.entries(schema.shape).flatMap(([name, field]) => within(field, joined(path, name)));
  return schema.def.catchall instanceof z.ZodUnknown
    ? [...fields, { path: joined(path, "*"), isMasked: false }]
    : fields;
};

const joined = (path: string, name: string): string => (path === "" ? name : `${path}.${name}`);
const distinct = (fields: readonly ShownField[]): readonly ShownField[] => [
  ...new Map(fields.map((field) => [field.path, field])).values(),
];
