// The id of an order in lists and paths. It is opaque, and always the same for an order.

const REF = /^ord_([1-9]\d{0,9})_([A-Za-z0-9_-]{1,700})$/;

/** `ord_` with the client and the shop's own id, which may contain any character. */
export const orderRef = (clientId: number, orderId: string): string =>
  `ord_${clientId}_${Buffer.from(orderId, "utf8").toString("base64url")}`;

/** Decodes an `orderRef`; undefined for any other text, which is then a shop's own id. */
export const orderOfRef = (ref: string): { readonly client_id: number; readonly order_id: string } | undefined => {
  const [, client, encoded] = REF.exec(ref) ?? [];
  if (client === undefined || encoded === undefined) return undefined;
  const order_id = Buffer.from(encoded, "base64url").toString("utf8");
  return orderRef(Number(client), order_id) === ref ? { client_id: Number(client), order_id } : undefined;
};
