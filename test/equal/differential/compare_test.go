package differential

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/millrace/millrace/test/support/harness"
)

// difference describes how two answers differ. It is empty if they do not.
func (p *pair) difference(ours, theirs *answer) string {
	var out strings.Builder
	if ours.status != theirs.status {
		fmt.Fprintf(&out, "  status: ours %d, theirs %d\n", ours.status, theirs.status)
	}
	headerDifference(&out, ours, theirs)
	a, b := ours.body, theirs.body
	if !p.sameTokens {
		a, b = withoutTokens(a, ours.narrowed), withoutTokens(b, "")
	}
	if !bytes.Equal(a, b) && !(ours.table() && theirs.table() && sameButAges(a, b)) {
		at := harness.FirstDifference(a, b)
		fmt.Fprintf(&out, "  body differs at byte %d (ours has %d bytes, theirs %d)\n", at, len(a), len(b))
		fmt.Fprintf(&out, "    ours:   %s\n    theirs: %s\n", around(a, at), around(b, at))
	}
	return out.String()
}

func headerDifference(out *strings.Builder, ours, theirs *answer) {
	names := map[string]bool{}
	for _, h := range []http.Header{ours.header, theirs.header} {
		for name := range h {
			names[name] = true
		}
	}
	for name := range names {
		a, b := ours.header.Values(name), theirs.header.Values(name)
		switch {
		case harness.IsVolatileHeader(name):
		case ours.codingsDiffer() && (name == "Content-Encoding" || name == "Vary"):
			// codingDifference compares this header.
		case name == "Content-Length" && !(ours.comparesLength() && theirs.comparesLength()):
		case !slices.Equal(a, b):
			fmt.Fprintf(out, "  header %s: ours %q, theirs %q\n", name, a, b)
		}
	}
	if ours.codingsDiffer() {
		codingDifference(out, ours, theirs)
	}
	// Kubernetes begins a new member of gzip at each flush of a watch. Many decoders stop
	// behind the first one.
	if ours.members > 1 {
		fmt.Fprintf(out, "  body has %d members of gzip\n", ours.members)
	}
}

// comparesLength reports whether the Content-Length of this answer must agree.
// It need not for compressed answers, whose length depends on the compressor,
// nor for tables with ages and lists with tokens. The header may also be
// absent, depending on the number of writes that the answer took.
func (a *answer) comparesLength() bool {
	return a.header.Get("Content-Length") != "" && a.header.Get("Content-Encoding") == "" && !a.table() &&
		!bytes.Contains(a.body, tokenStart[:len(tokenStart)-1])
}

// table reports whether the answer is a table: in JSON, or in YAML, whose
// fields are sorted.
func (a *answer) table() bool {
	return bytes.Contains(a.body[:min(len(a.body), 200)], []byte(`"Table"`)) || bytes.Contains(a.body, []byte("\nkind: Table\n"))
}

const shown = 100

func around(b []byte, at int) string {
	return fmt.Sprintf("…%q ▶ %q…", b[max(0, at-shown):at], b[at:min(len(b), at+shown)])
}
