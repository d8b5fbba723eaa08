package differential

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/millrace/millrace/test/support/harness"
)

// step is a request in a script for custom resources.
type step struct {
	// Name says what the step tests.
	Name string `json:"name"`
	// Verb and Path are the method and the path of the request. Path includes
	// the query.
	Verb string `json:"verb"`
	Path string `json:"path"`
	// Type is the content type of the body; the default is JSON. A body that is
	// not a string is marshalled as an object.
	Type string `json:"type"`
	Body any    `json:"body"`
	// Accept defaults to JSON.
	Accept string `json:"accept"`
	// Until and Without repeat the request: until the answer contains all texts
	// of Until, which ampersands separate, and none of Without.
	Until   string `json:"until"`
	Without string `json:"without"`
}

// TestCustomResourcesAgree sends the same steps to two servers with separate
// etcds, and compares all answers.
func TestCustomResourcesAgree(t *testing.T) {
	if testing.Short() {
		t.Skip("starts two servers")
	}
	t.Parallel()
	ours := newSide(t, harness.Start(t, harness.ShortTempDir(t), concat(everything, "--read-path=millrace")...))
	theirs := newSide(t, harness.Start(t, harness.ShortTempDir(t), concat(everything, "--read-path=kubernetes")...))
	for i, s := range steps(t) {
		var answers [2]*answer
		for side, server := range []*side{ours, theirs} {
			a, err := server.step(t, s)
			if err != nil {
				t.Fatalf("step %d, %s: %v", i, s.Name, err)
			}
			answers[side] = a
		}
		if d := sameStep(answers[0], answers[1]); d != "" {
			t.Errorf("step %d, %s: %s %s\n%s", i, s.Name, s.Verb, s.Path, d)
		}
	}
}

func steps(t *testing.T) []step {
	t.Helper()
	data, err := os.ReadFile("testdata/custom-steps.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []step
	if err := yaml.UnmarshalStrict(data, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// step sends a step. It repeats the request while a cache of Kubernetes initializes, and
// until the answer is what Until and Without say.
func (s *side) step(t *testing.T, what step) (last *answer, err error) {
	(&pair{tb: t}).until(what.Name, func() error {
		if last, err = s.try(what); err != nil {
			return nil
		}
		if isInitializing(last) || !what.done(string(last.body)) {
			return fmt.Errorf("answer %d: %s", last.status, last.body)
		}
		return nil
	})
	return last, err
}

// isInitializing reports whether Kubernetes' watch cache of a new resource is still empty.
// Clients ask again then.
func isInitializing(a *answer) bool {
	return a.status == http.StatusTooManyRequests && bytes.Contains(a.body, []byte("storage is (re)initializing"))
}

func (s step) done(answer string) bool {
	for text := range strings.SplitSeq(s.Until, " & ") {
		if !strings.Contains(answer, text) {
			return false
		}
	}
	return s.Without == "" || !strings.Contains(answer, s.Without)
}

func (s *side) try(what step) (*answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	body, err := what.body()
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, what.Verb, s.URL+what.Path, body)
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{"Accept": what.Accept, "Content-Type": what.Type} {
		if value == "" {
			value = "application/json"
		}
		req.Header.Set(name, value)
	}
	resp, err := s.clients[admin].Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return &answer{status: resp.StatusCode, header: resp.Header, body: got}, err
}

func (s step) body() (io.Reader, error) {
	switch b := s.Body.(type) {
	case nil:
		return nil, nil
	case string:
		return strings.NewReader(b), nil
	}
	encoded, err := json.Marshal(s.Body)
	return bytes.NewReader(encoded), err
}

// stepHeaders are the response headers that are compared.
var stepHeaders = []string{"Content-Type", "Warning", "Cache-Control", "Retry-After", "Location", "Etag"}

// sameStep describes how two answers differ. It ignores values that differ
// between any two servers.
func sameStep(ours, theirs *answer) string {
	var out strings.Builder
	if ours.status != theirs.status {
		fmt.Fprintf(&out, "  status: ours %d, theirs %d\n", ours.status, theirs.status)
	}
	for _, name := range stepHeaders {
		a, b := ours.header.Values(name), theirs.header.Values(name)
		// ETags of OpenAPI documents are our own.
		if tagged := name == "Etag" && len(a) == len(b); !tagged && !slices.Equal(a, b) {
			fmt.Fprintf(&out, "  header %s: ours %q, theirs %q\n", name, a, b)
		}
	}
	a, b := neutral(ours.body), neutral(theirs.body)
	if !bytes.Equal(a, b) {
		at := harness.FirstDifference(a, b)
		fmt.Fprintf(&out, "  body: ours   %s\n        theirs %s\n", around(a, at), around(b, at))
	}
	return out.String()
}

// serverSpecific matches values that differ between any two servers.
var serverSpecific = regexp.MustCompile(strings.Join([]string{
	`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`,           // UIDs
	`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`,             // times
	`"(resourceVersion|continue)":"[^"]*"`,                // revisions
	`"\d+(s|m\d*s?)"`,                                     // ages
	`resourceVersion(\\*"|):\s*\\*"\d+`,                   // revisions in YAML and in messages
	`"?remainingItemCount"?:\d+`, `(RV|version):? \d{2,}`, // revisions in messages
}, "|"))

// neutral replaces values that differ between any two servers. It also sorts
// lists whose order depends on time: conditions of a definition are in the
// order in which controllers wrote them, managed fields in the order of the
// seconds in which they were written.
func neutral(body []byte) []byte {
	var out bytes.Buffer
	for each := json.NewDecoder(bytes.NewReader(body)); ; {
		var decoded any
		if err := each.Decode(&decoded); err == io.EOF {
			body = out.Bytes()
			break
		} else if err != nil {
			body = neutralYAML(body)
			break
		}
		out.Write(ordered(decoded))
	}
	return serverSpecific.ReplaceAll(harness.QuotedManagedFields.ReplaceAll(body, []byte("$1#$2")), []byte("#"))
}

// neutralYAML returns a YAML object as JSON, followed by the sorted lines of
// the YAML. Other bodies are returned unchanged.
func neutralYAML(body []byte) []byte {
	var decoded map[string]any
	if err := yaml.Unmarshal(body, &decoded); err != nil {
		return body
	}
	lines := strings.Split(serverSpecific.ReplaceAllString(string(body), "#"), "\n")
	slices.Sort(lines)
	return fmt.Appendf(ordered(decoded), "\n%s", strings.Join(lines, "\n"))
}

// ordered marshals a decoded value in an order that does not depend on time.
func ordered(decoded any) []byte {
	sortDated(decoded)
	sorted, err := json.Marshal(decoded)
	if err != nil {
		panic(err) // The value came from JSON.
	}
	return append(sorted, '\n')
}

// sortDated sorts the lists whose order depends on times.
func sortDated(of any) {
	switch v := of.(type) {
	case []any:
		for _, item := range v {
			sortDated(item)
		}
	case map[string]any:
		for key, value := range v {
			sortDated(value)
			list, ok := value.([]any)
			if ok && (key == "conditions" || key == "managedFields") {
				// Times are no sort key: a second may begin between two writes
				// to one server.
				slices.SortFunc(list, func(a, b any) int {
					return strings.Compare(serverSpecific.ReplaceAllString(fmt.Sprint(a), "#"), serverSpecific.ReplaceAllString(fmt.Sprint(b), "#"))
				})
			}
		}
	}
}
