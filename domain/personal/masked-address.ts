// Masks what says who a person is, for readers that may know only that there is a value.

/** Stands for a value that is not shown. */
export const MASK = "***";

/** `a***@example.com`; a text that is no address becomes `***`. */
export const maskedAddress = (text: string): string => {
  const at = text.lastIndexOf("@");
  return at < 1 ? MASK : `${text[0]}${MASK}${text.slice(at)}`;
};
