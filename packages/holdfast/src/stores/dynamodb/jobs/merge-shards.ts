/** A reader of one partition, with its current page. */
interface Reader<Entry> {
  pages: AsyncGenerator<Entry[]>;
  page: Entry[];
  at: number;
}

/** Merges sorted partitions into one sorted sequence. */
export async function* mergeShards<Entry>(
  partitions: readonly AsyncGenerator<Entry[]>[],
  comesFirst: (a: Entry, b: Entry) => boolean,
): AsyncGenerator<Entry> {
  const readers = partitions.map((pages): Reader<Entry> => ({ pages, page: [], at: 0 }));
  const filled = await Promise.all(readers.map(refill));
  let open = readers.filter((_, at) => filled[at]);
  while (open.length > 0) {
    let first = open[0] as Reader<Entry>;
    for (const reader of open) if (comesFirst(next(reader), next(first))) first = reader;
    yield next(first);
    first.at++;
    if (first.at < first.page.length || (await refill(first))) continue;
    open = open.filter((reader) => reader !== first);
  }
}

function next<Entry>({ page, at }: Reader<Entry>): Entry {
  return page[at] as Entry;
}

/** Reads the next page. False: the partition has ended. */
async function refill<Entry>(reader: Reader<Entry>): Promise<boolean> {
  for (;;) {
    const { done, value } = await reader.pages.next();
    if (done === true) return false;
    [reader.page, reader.at] = [value, 0];
    if (value.length > 0) return true;
  }
}
