"""How the pages look: one style sheet, in the page itself, light and dark, from 320 px up. No script, nothing from
elsewhere: the header says so, and the browser holds it."""

from __future__ import annotations

import base64
import hashlib
from typing import Final

STYLE: Final = """
:root{color-scheme:light dark;--bg:#f7f8fa;--card:#fff;--fg:#1a1a1a;--soft:#57606a;--line:#d0d5dc;--field:#8a929c;
--accent:#0067a3;--on:#fff;--person:#fff3cc;--person-line:#b36b00;--person-text:#7a4900;--bad:#fbe3d6;
--bad-line:#b34700;--bad-text:#983c00;--good:#ddf3ea;--good-line:#00735a;--good-text:#005a46;--raise:#f1f3f6}
@media (prefers-color-scheme:dark){:root{--bg:#111418;--card:#191d22;--fg:#f0f0f0;--soft:#a3abb5;--line:#363c44;
--field:#77808b;--accent:#56b4e9;--on:#06131c;--person:#3a2d06;--person-line:#f0c040;--person-text:#f0c040;
--bad:#4a1e05;--bad-line:#ff8c42;--bad-text:#ffb48a;--good:#0e3a2c;--good-line:#2fc79a;--good-text:#7fe3c3;
--raise:#22272e}}
*{box-sizing:border-box}
html{font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;background:var(--bg);color:var(--fg);
-webkit-text-size-adjust:100%}
body{margin:0;padding:1.25rem 1rem 3rem}
main{max-width:44rem;margin:0 auto;background:var(--card);border:1px solid var(--line);border-radius:10px;
padding:1.25rem 1.5rem 1.5rem}
@media (max-width:30rem){body{padding:0 0 2rem}main{border-width:0 0 1px;border-radius:0;padding:1rem}}
h1{font-size:1.35rem;line-height:1.3;margin:.15rem 0 .75rem;overflow-wrap:anywhere;white-space:pre-wrap}
h2{font-size:1rem;margin:1.5rem 0 .5rem}
p{margin:.5rem 0;overflow-wrap:anywhere}
a{color:var(--accent)}
.from,.foot,.help,.more{color:var(--soft);font-size:.875rem}
.from{margin:0}
.foot{margin-top:1.5rem;border-top:1px solid var(--line);padding-top:.75rem}
.box{border:1px solid;border-left-width:5px;border-radius:6px;padding:.6rem .8rem;margin:.9rem 0}
.box p{margin:.2rem 0}
.box ul{margin:.3rem 0;padding-left:1.2rem}
.box a{color:inherit}
.person{background:var(--person);border-color:var(--person-line);color:var(--person-text)}
.bad{background:var(--bad);border-color:var(--bad-line);color:var(--bad-text)}
.good{background:var(--good);border-color:var(--good-line);color:var(--good-text)}
.wide{overflow-x:auto;margin:.75rem 0}
table{border-collapse:collapse;font-size:.9375rem}
.payload{width:100%}
th,td{text-align:left;vertical-align:top;padding:.3rem .75rem .3rem 0;border-bottom:1px solid var(--line)}
th{font-weight:600;color:var(--soft);white-space:nowrap}
.payload th{width:1%}
.payload td{white-space:pre-wrap;overflow-wrap:anywhere;min-width:9rem}
.payload .frame th{width:auto}
.payload .frame td{white-space:nowrap;min-width:0}
img{max-width:100%;height:auto;background:#fff;border-radius:4px}
.field{margin:1rem 0;min-width:0}
.field>label,.field>.label,legend{font-weight:600;display:block;padding:0;overflow-wrap:anywhere}
.must{color:var(--bad-text);font-weight:400}
.help{margin:.1rem 0 .25rem}
.err{color:var(--bad-text);margin:.25rem 0;font-weight:600;font-size:.9375rem}
.err::before{content:"\\25b2\\00a0"}
input,select,textarea,button{font:inherit;color:inherit}
input:not([type=checkbox]):not([type=radio]),select,textarea{width:100%;max-width:28rem;padding:.45rem .6rem;
background:var(--card);border:1px solid var(--field);border-radius:6px;min-height:2.6rem}
textarea{max-width:100%;min-height:7rem;resize:vertical}
textarea.code{font:.875rem/1.45 ui-monospace,Menlo,Consolas,monospace}
input[type=checkbox],input[type=radio]{width:1.15rem;height:1.15rem;margin:0;accent-color:var(--accent);flex:none}
[aria-invalid=true]{border-color:var(--bad-line)!important;border-width:2px!important}
:focus-visible{outline:3px solid var(--accent);outline-offset:2px}
.pick{display:flex;gap:.6rem;align-items:center;padding:.35rem 0;min-height:2.6rem}
.pick label{overflow-wrap:anywhere}
.picks{display:flex;flex-wrap:wrap;gap:0 1.5rem}
.unset{font-size:.9375rem;color:var(--soft)}
fieldset{border:1px solid var(--line);border-radius:8px;margin:1rem 0;padding:.25rem 1rem .75rem;min-width:0}
fieldset.plain{border:0;padding:0}
legend{padding:0 .4rem;margin-left:-.4rem}
fieldset.plain>legend{padding:0;margin:0}
fieldset.wrong{border-color:var(--bad-line)}
.pair{display:flex;flex-wrap:wrap;gap:.6rem}
.pair>*{flex:1 1 11rem;max-width:16rem!important}
button{border:1px solid var(--field);border-radius:6px;background:var(--raise);padding:.45rem .9rem;min-height:2.6rem;
cursor:pointer}
button.send{background:var(--accent);border-color:var(--accent);color:var(--on);font-weight:600;padding:.55rem 1.4rem}
.first{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap;border:0;padding:0;
min-height:0}
.row{border-top:1px solid var(--line);padding-top:.25rem;margin-top:.75rem}
.row:first-of-type{border-top:0}
.tab:has(>.pick>input:not(:checked))>.branch{display:none}
.branch{padding-left:1.75rem}
.asked{list-style:none;margin:0;padding:0}
.asked li{border-top:1px solid var(--line);padding:.75rem 0}
.asked p{margin:.15rem 0}
@media print{main{border:0}button{display:none}}
"""

#: Of every answer. `img-src data:` is for pictures that stand in a question.
POLICY: Final = (
    "default-src 'none'; style-src 'sha256-"
    + base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode("ascii")
    + "'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

HEADERS: Final = {
    "content-security-policy": POLICY,
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "x-robots-tag": "noindex, nofollow",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "interest-cohort=()",
}

__all__ = ["HEADERS", "POLICY", "STYLE"]
