package differential

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/version"
	componentversion "k8s.io/component-base/version"

	"github.com/millrace/millrace/test/support/harness"
)

// emulatedRequests is the number of random requests to servers that emulate a version.
const emulatedRequests = 300

// TestEmulatedVersionAgrees compares both read paths while they emulate the minor version
// before (--emulated-version): what they say of themselves, their discovery documents, and
// objects of every kind that is served.
func TestEmulatedVersionAgrees(t *testing.T) {
	if testing.Short() {
		t.Skip("starts two servers")
	}
	t.Parallel()
	before := utilversion.MustParse(componentversion.DefaultKubeBinaryVersion).SubtractMinor(1).String()
	f := &fixture{seed: harness.Seed(t), pair: startPairWith(t, noLeases, "--runtime-config=api/beta=true", "--emulated-version="+before)}
	if emulated := f.emulated(t); emulated != before {
		t.Fatalf("the server emulates %s, want %s", emulated, before)
	}
	f.objects = newObjectSet(f.pair)
	d := &documents{pair: f.pair, client: f.objects.client}
	d.agree(t, "documents")
	f.objects.skipsUnserved = true
	f.objects.create()
	f.settle()
	f.kinds = discover(t, f.pair)
	survey(t, f.pair, f.kinds)
	if t.Failed() {
		t.FailNow()
	}
	f.now = f.revision()
	f.agree(t, []request{{path: "/version"}})
	f.sameJSON(t, "/openapi/v2")
	f.agree(t, thinned(combined(f.kinds, f.random(t), f.now, combinations)))
	f.agree(t, f.generator(t).distinct(scaled(t, emulatedRequests)))
}

// thinned returns every third request.
func thinned(all []request) (some []request) {
	for i := 0; i < len(all); i += 3 {
		some = append(some, all[i])
	}
	return some
}

// emulated returns the version that our server says it emulates.
func (p *pair) emulated(t *testing.T) string {
	t.Helper()
	a, err := p.ours.do(request{path: "/version"})
	if err != nil {
		t.Fatal(err)
	}
	var info version.Info
	if err := json.Unmarshal(a.body, &info); err != nil {
		t.Fatalf("%s: %v", a.body, err)
	}
	return info.EmulationMajor + "." + info.EmulationMinor
}

// sameJSON compares documents whose keys come in any order.
func (p *pair) sameJSON(t *testing.T, path string) {
	t.Helper()
	ours, theirs, err := p.both(request{path: path})
	if err != nil {
		t.Fatal(err)
	}
	var a, b any
	if err := errors.Join(json.Unmarshal(ours.body, &a), json.Unmarshal(theirs.body, &b)); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if !reflect.DeepEqual(a, b) {
		t.Errorf("%s differs", path)
	}
}
