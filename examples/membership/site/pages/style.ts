/** The style of all pages. */
export const STYLE = `
:root {
  color-scheme: light dark;
  --paper: light-dark(#faf7f2, #17151a);
  --card: light-dark(#fff, #221f27);
  --ink: light-dark(#241f2b, #ece7f1);
  --soft: light-dark(#6b6475, #a79fb3);
  --line: light-dark(#e4ddd2, #39343f);
  --accent: light-dark(#8a4b08, #f0b35f);
  --on-accent: light-dark(#fff, #241803);
  --good: light-dark(#17663a, #7fd7a4);
  --bad: light-dark(#a3231f, #ff9d94);
}
* { box-sizing: border-box; }
body {
  margin: 0;
  background: var(--paper);
  color: var(--ink);
  font: 1rem/1.55 system-ui, sans-serif;
}
h1, h2 { line-height: 1.2; font-family: Georgia, serif; text-wrap: balance; }
h1 { margin: 0 0 1rem; font-size: clamp(1.6rem, 5vw, 2.2rem); overflow-wrap: anywhere; }
h2 { margin: 0 0 .6rem; font-size: 1.2rem; }
p { margin: 0 0 .9rem; }
a { color: var(--accent); }
small { color: var(--soft); }
.bar {
  display: flex; flex-wrap: wrap; align-items: center; justify-content: space-between; gap: .5rem 1rem;
  padding: .8rem max(1rem, calc((100% - 62rem) / 2));
  border-bottom: 1px solid var(--line);
}
.brand { font: 700 1.15rem Georgia, serif; text-decoration: none; color: var(--ink); }
nav { display: flex; flex-wrap: wrap; align-items: center; gap: .3rem 1.1rem; }
main { max-width: 64rem; margin: 0 auto; padding: 2rem 1rem 4rem; }
.hero { padding: clamp(1.5rem, 7vw, 4rem) 0; max-width: 40rem; }
.hero h1 { font-size: clamp(2rem, 8vw, 3.4rem); }
.hero p { font-size: 1.15rem; color: var(--soft); }
.plans, .grid { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 17rem), 1fr)); }
.grid.two { grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); }
.card { background: var(--card); border: 1px solid var(--line); border-radius: .8rem; padding: 1.3rem; }
.card + .card, .grid + .card { margin-top: 1rem; }
:is(.grid, .plans) > .card + .card { margin-top: 0; }
.narrow { max-width: 26rem; margin: 1rem auto; }
.price { color: var(--accent); font-weight: 600; }
.notice, .problem { padding: .7rem 1rem; border-radius: .6rem; border: 1px solid currentColor; max-width: 48rem; }
.notice { color: var(--good); }
.problem { color: var(--bad); }
.aside { margin: 1rem 0 0; color: var(--soft); }
.crumbs { margin: 0 0 .4rem; }
form { margin: 0; }
label { display: block; margin-bottom: .9rem; font-weight: 600; }
label small { display: block; font-weight: 400; }
label.check { display: flex; gap: .5rem; align-items: baseline; font-weight: 400; overflow-wrap: anywhere; }
input:not([type="checkbox"]), textarea {
  display: block; width: 100%; margin-top: .25rem; padding: .55rem .7rem;
  font: inherit; font-weight: 400; color: inherit; background: var(--paper);
  border: 1px solid var(--soft); border-radius: .5rem;
}
textarea { resize: vertical; }
button, .button {
  display: inline-block; padding: .55rem 1.1rem; border: 1px solid var(--accent); border-radius: .5rem;
  background: var(--accent); color: var(--on-accent);
  font: inherit; font-weight: 600; text-decoration: none; cursor: pointer;
}
.button.large { padding: .8rem 1.6rem; font-size: 1.1rem; }
button.quiet { background: transparent; color: var(--accent); }
button.plain { padding: 0; border: 0; background: none; color: var(--accent); font-weight: 400; text-decoration: underline; }
button:hover, .button:hover { filter: brightness(1.1); }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
.choices { display: grid; gap: .6rem; }
.row { display: flex; flex-wrap: wrap; gap: .6rem 1rem; align-items: end; }
.row > * { min-width: 0; }
.row label { flex: 0 1 17rem; margin: 0; }
.row input { min-width: 0; }
.list { margin: 0 0 1rem; padding: 0; list-style: none; }
.list li { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 1rem; padding: .6rem 0; border-bottom: 1px solid var(--line); }
.run { margin-top: 1.2rem; padding-top: 1.2rem; border-top: 1px solid var(--line); }
.badge { padding: .1rem .6rem; border: 1px solid currentColor; border-radius: 1rem; font-size: .85rem; font-weight: 600; color: var(--soft); }
.badge.good { color: var(--good); }
.badge.busy { color: var(--accent); }
.counts { display: flex; flex-wrap: wrap; gap: .5rem 2rem; margin: 0; }
.counts dt { color: var(--soft); font-size: .85rem; }
.counts dd { margin: 0; font-size: 1.4rem; font-variant-numeric: tabular-nums; }
iframe { width: 100%; height: 22rem; border: 1px solid var(--line); border-radius: .5rem; background: var(--paper); }
.preview { padding: 1rem; overflow-wrap: anywhere; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font: inherit; }
table { width: 100%; border-collapse: collapse; }
th, td { padding: .5rem .5rem .5rem 0; text-align: left; border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
`;
