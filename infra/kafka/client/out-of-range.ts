// Who decides, for a member of a group, whether a position that the log does not hold may be
// skipped.

/** True: the partition is read on from the start of the log. Topics carry the prefix. */
export type OnOutOfRange = (topic: string, partition: number, position: number) => boolean;

/**
 * By member id, which is unique in the cluster: a permission ends with the membership it was given
 * in, and no other group of the process has it.
 */
export const onOutOfRange = new Map<string, OnOutOfRange>();
