// Expressions for the fields that a condition may ask for, over the columns of the store
// (domain/conditions/fields.ts reads the same fields from an event).

import { pathOf, queryNameOf } from "../../domain/conditions/fields.ts";
import { lowerLetters, upperLetters, whiteSpace } from "../../domain/conditions/props.ts";
import { urlForm } from "../../domain/conditions/url-parts.ts";
import { bind, type Condition } from "../../infra/clickhouse/query.ts";
import { literal, piece, plainPiece } from "../../infra/clickhouse/sql-fragments.ts";
import { conditionTexts } from "../../schemas/generated-fields.ts";
import { eventColumns } from "./generated.ts";

/** Expressions that are never NULL. `text` only has a meaning where `isText` is 1. */
export interface TextValue {
  readonly isThere: Condition;
  readonly isText: Condition;
  readonly text: Condition;
}
export interface AnyValue extends TextValue {
  readonly isNumber: Condition;
  readonly number: Condition;
  readonly isTruth: Condition;
  readonly truth: Condition;
}

const always = plainPiece("1");
const column = (name: string): TextValue => ({
  isThere: always,
  isText: always,
  text: plainPiece(`toString(${name})`),
});
const nullable = (expression: string): TextValue => {
  const isThere = plainPiece(`isNotNull(${expression})`);
  return { isThere, isText: isThere, text: plainPiece(`ifNull(toString(${expression}), '')`) };
};

/** The groups host, path and query. Empty if the text is not an address. */
const partsOf = (name: string): Condition => piece`extractGroups(ifNull(${plainPiece(name)}, ''), ${literal(urlForm)})`;
const hostOf = (name: string): TextValue => {
  const isThere = piece`notEmpty(${partsOf(name)})`;
  return { isThere, isText: isThere, text: piece`lower(${partsOf(name)}[1])` };
};
const pathPart: TextValue = {
  isThere: hostOf("url").isThere,
  isText: hostOf("url").isText,
  text: piece`if(empty(${partsOf("url")}[2]), '/', ${partsOf("url")}[2])`,
};

/** Fields whose column has the same name, as nullable or plain columns. */
const held = eventColumns
  .filter(({ name }) => Object.hasOwn(conditionTexts, name))
  .map(({ name, type }) => [name, type.startsWith("Nullable") ? nullable(name) : column(name)] as const);

/** The type of a custom event is its own name, as in `eventTypeOf`. */
const known: Readonly<Record<string, TextValue>> = {
  ...Object.fromEntries(held),
  t: column("if(t = 'custom' and isNotNull(custom_name), assumeNotNull(custom_name), t)"),
  "url.host": hostOf("url"),
  "url.path": pathPart,
  "ref.host": hostOf("ref"),
};

/** Throws RangeError on a field that is not a text. */
export const textValueOf = (field: string): TextValue => {
  const value = Object.hasOwn(known, field) ? known[field] : undefined;
  if (value !== undefined) return value;
  if (field === "coupon") return coupon;
  const name = queryNameOf(field);
  if (name === undefined) throw new RangeError(`the store has no field ${field}`);
  return queryValue(name);
};
export const anyValueOf = (field: string): AnyValue => inProps(pathOf(field));

/** The first query parameter of that name. It counts as missing if its bytes are not UTF-8. */
const queryValue = (name: string): TextValue => {
  const pieces = piece`splitByChar('&', ${partsOf("url")}[3])`;
  const first = piece`arrayFirst(p -> decodeURLFormComponent(splitByChar('=', p)[1]) = ${bind("String", name)},
    ${pieces})`;
  const text = piece`arrayMap(p -> if(position(p, '=') = 0, '',
    decodeURLFormComponent(substring(p, position(p, '=') + 1))), [${first}])[1]`;
  const isThere = piece`(notEmpty(${first}) and isValidUTF8(${text}))`;
  return { isThere, isText: isThere, text };
};

/**
 * The store's JSON parser rejects a whole text that contains an integer of more than 64 bits. Such
 * integers are written as decimals, which both parsers read as the nearest double. Only texts that
 * the store cannot parse are changed. Two passes are needed, because a match takes the comma behind
 * it along, so neighbours in a list are found in turn.
 */
const bigInteger = literal("([:,[]-?[0-9]{19,21})([],}])");
const asDecimal = literal("\\1.0\\2");
const props = piece`if(isValidJSON(props), props, replaceRegexpAll(replaceRegexpAll(props, ${bigInteger}, ${asDecimal}),
  ${bigInteger}, ${asDecimal}))`;

const inProps = (path: readonly string[]): AnyValue => {
  const found = path.reduce<Condition>((so_far, name) => piece`${so_far}, ${bind("String", name)}`, props);
  const type = piece`toString(JSONType(${found}))`;
  return {
    isThere: piece`(${type} != 'Null')`,
    isText: piece`(${type} = 'String')`,
    text: piece`JSONExtractString(${found})`,
    isNumber: piece`(${type} in ('Int64', 'UInt64', 'Double'))`,
    number: piece`JSONExtractFloat(${found})`,
    isTruth: piece`(${type} = 'Bool')`,
    truth: piece`JSONExtractBool(${found})`,
  };
};

/** As domain/conditions/comparison.ts compares codes. */
const asCode = (text: Condition): Condition => {
  const [leading, trailing] = [literal(`^${whiteSpace}+`), literal(`${whiteSpace}+$`)];
  const trimmed = piece`replaceRegexpOne(replaceRegexpOne(${text}, ${leading}, ''), ${trailing}, '')`;
  return piece`translateUTF8(${trimmed}, ${literal(upperLetters)}, ${literal(lowerLetters)})`;
};
const sentCoupon = inProps(["coupon"]);
const coupon: TextValue = { ...sentCoupon, text: asCode(sentCoupon.text) };
