// JSON merge-patch (RFC 7396).

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * Applies `patch` to `value`: objects are merged at every depth, null removes a field of a nested
 * object, and everything else is replaced. At the top level null is a value, because a record keeps
 * all its fields.
 */
export const mergePatch = (value: unknown, patch: unknown, isNested = false): unknown => {
  if (!isObject(patch)) return patch;
  const merged: Record<string, unknown> = { ...(isObject(value) ? value : {}) };
  for (const [name, part] of Object.entries(patch))
    if (part === null && isNested) delete merged[name];
    else if (part !== undefined) merged[name] = mergePatch(merged[name], part, true);
  return merged;
};
