package differential

import (
	"bytes"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// byNature are headers that differ between any two answers.
var byNature = map[string]bool{
	"Audit-Id":                          true,
	"Date":                              true,
	"X-Kubernetes-Pf-Flowschema-Uid":    true,
	"X-Kubernetes-Pf-Prioritylevel-Uid": true,
}

// ages are the cells of tables that tell the time since something happened.
var ages = regexp.MustCompile(`"(\d+[ydhms]){1,3}( ago)?"`)

// difference describes how two answers differ, "" if they do not.
func difference(ours, theirs *answer) string {
	var out strings.Builder
	if ours.status != theirs.status {
		fmt.Fprintf(&out, "  status: ours %d, theirs %d\n", ours.status, theirs.status)
	}
	headerDifference(&out, ours, theirs)
	a, b := ours.comparable(), theirs.comparable()
	if !bytes.Equal(a, b) {
		at := firstDifference(a, b)
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
		case byNature[name]:
		case name == "Content-Length" && !(ours.comparesLength() && theirs.comparesLength()):
		case !slices.Equal(a, b):
			fmt.Fprintf(out, "  header %s: ours %q, theirs %q\n", name, a, b)
		}
	}
}

// comparesLength leaves out the length of what is compressed, which depends on
// the compressor, of tables with their ages and tokens, and whether there is one at all,
// which depends on how many writes the answer took.
func (a *answer) comparesLength() bool {
	return a.header.Get("Content-Length") != "" && a.header.Get("Content-Encoding") == "" && !a.table() &&
		!bytes.Contains(a.body, tokenStart[:len(tokenStart)-1])
}

func (a *answer) table() bool { return bytes.Contains(a.head(), []byte(`"Table"`)) }

func (a *answer) head() []byte { return a.body[:min(len(a.body), 200)] }

// comparable masks the ages in tables, and how continue tokens are written,
// and nothing else.
func (a *answer) comparable() []byte {
	body := withoutTokens(a.body)
	if a.table() {
		body = ages.ReplaceAll(body, []byte(`"AGE"`))
	}
	return body
}

func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

const shown = 100

func around(b []byte, at int) string {
	return fmt.Sprintf("…%q ▶ %q…", b[max(0, at-shown):at], b[at:min(len(b), at+shown)])
}
