/** A walk through one partition, and what was read of it and not yet given. */
interface Head<Entry> {
  walk: AsyncGenerator<Entry[]>;
  page: Entry[];
  at: number;
}

/** The entries of all walks in one order, in which each of them has its own. */
export async function* merged<Entry>(
  walks: readonly AsyncGenerator<Entry[]>[],
  comesFirst: (a: Entry, b: Entry) => boolean,
): AsyncGenerator<Entry> {
  const heads = walks.map((walk): Head<Entry> => ({ walk, page: [], at: 0 }));
  const filled = await Promise.all(heads.map(refill));
  let open = heads.filter((_, at) => filled[at]);
  while (open.length > 0) {
    let first = open[0] as Head<Entry>;
    for (const head of open) if (comesFirst(next(head), next(first))) first = head;
    yield next(first);
    first.at++;
    if (first.at < first.page.length || (await refill(first))) continue;
    open = open.filter((head) => head !== first);
  }
}

function next<Entry>({ page, at }: Head<Entry>): Entry {
  return page[at] as Entry;
}

/** False: there is no more. */
async function refill<Entry>(head: Head<Entry>): Promise<boolean> {
  for (;;) {
    const { done, value } = await head.walk.next();
    if (done === true) return false;
    [head.page, head.at] = [value, 0];
    if (value.length > 0) return true;
  }
}
