// JSON merge-patch (RFC 7396).

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * What `patch` makes of `value`: objects are merged however deep, null takes a field of a nested
 * object away, everything else is replaced. At the top null is a value, for a record has all its
 * fields.
 */
export const mergePatch = (value: unknown, patch: unknown, isNested = false): unknown => {
  if (!isObject(patch)) return patch;
  const merged: Record<string, unknown> = { ...(isObject(value) ? value : {}) };
  for (const [name, part] of Object.entries(patch))
    if (part === null && isNested) delete merged[name];
    else if (part !== undefined) merged[name] = mergePatch(merged[name], part, true);
  return merged;
};
