package transcode

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/millrace/millrace/internal/lab/fill"
	"github.com/millrace/millrace/internal/wire/transcode"
)

var updateFlag = flag.Bool("update", false, "write the table of shares into the documents")

// sharesPage is the document with the table that TestShares checks.
const sharesPage = "../../../docs/bench/tables/transcode-shares.md"

// shares counts objects of one version that were sent in one form, and those of them that
// need no encoder once their fingerprint is known.
type shares struct{ sent, equal int }

func (s *shares) add(o outcome) {
	if o == unread {
		return
	}
	if s.sent++; o == equal {
		s.equal++
	}
}

func (s *shares) String() string {
	if s.sent == 0 {
		return "–"
	}
	return fmt.Sprintf("%d %%", 100*s.equal/s.sent)
}

// TestShares measures which share of objects goes the fast way, by version and form, and
// compares it with the table in the documents. What clusters have most of must all go.
func TestShares(t *testing.T) {
	const objects = 50
	written := manifests(t)
	var table strings.Builder
	table.WriteString("| version and kind | random: JSON, protobuf | real: JSON, protobuf |\n| --- | --- | --- |\n")
	for i, v := range versions() {
		name := v.kind.GroupVersion().String() + " " + v.kind.Kind
		if v.tables == nil {
			fmt.Fprintf(&table, "| %s | never: %s | |\n", name, whyNever(v))
			continue
		}
		var random, real [2]shares
		src := rand.NewSource(int64(i))
		filler := fuzzer.FuzzerFor(v.funcs, src, v.codecs)
		for form, target := range []transcode.Target{transcode.ObjectJSON, transcode.ObjectProtobuf} {
			l := newLane(t, v, target)
			for range objects {
				stored, err := v.storeAsIs(v.random(t, filler, true))
				if err != nil {
					t.Fatal(err)
				}
				random[form].add(l.send(t, stored))
			}
			for _, stored := range written[v.kind.String()] {
				o := l.send(t, stored)
				if real[form].add(o); o != equal && mustGo[v.kind.Kind] {
					t.Errorf("%v: %s: %s", v.kind, o, l.alarm.last)
				}
			}
		}
		fmt.Fprintf(&table, "| %s | %s, %s | %s, %s |\n", name, &random[0], &random[1], &real[0], &real[1])
	}
	compareWithPage(t, table.String())
}

// whyNever is the reason why a version has no tables.
func whyNever(v *version) string {
	for _, gv := range v.scheme.PrioritizedVersionsForGroup(v.kind.Group) {
		if gv == v.kind.GroupVersion() {
			break
		}
		if v.scheme.Recognizes(gv.WithKind(v.kind.Kind)) {
			return "stored as " + gv.Version
		}
	}
	return "its type contains itself"
}

// compareWithPage compares a table with the one between two marks in the documents, or writes
// it there.
func compareWithPage(t *testing.T, table string) {
	t.Helper()
	const begin, end = "<!-- Table of TestShares. -->\n\n", "\n<!-- End of the table. -->"
	page, err := os.ReadFile(sharesPage)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(page), begin)
	_, tail, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no place for the table", sharesPage)
	}
	wanted := head + begin + table + end + tail
	if wanted == string(page) {
		return
	}
	if !*updateFlag {
		t.Errorf("the table of %s is another one now; -update writes it: %s", sharesPage, table)
		return
	}
	if err := os.WriteFile(sharesPage, []byte(wanted), 0o644); err != nil {
		t.Fatal(err)
	}
}

// mustGo are the kinds of which a cluster has most objects.
var mustGo = map[string]bool{
	"Pod": true, "Node": true, "Event": true, "Lease": true, "EndpointSlice": true, "Secret": true, "ConfigMap": true, "Namespace": true, "ServiceAccount": true,
	"ReplicaSet": true, "Deployment": true, "DaemonSet": true, "Job": true, "Service": true,
}

// manifests are objects as people write them, and as package fill makes them, with their
// defaults, by kind.
func manifests(t *testing.T) map[string][][]byte {
	t.Helper()
	found := map[string][][]byte{}
	byKind := map[string]*version{}
	for _, v := range versions() {
		byKind[v.kind.GroupVersion().String()+" "+v.kind.Kind] = v
	}
	for _, name := range []string{"cluster.yaml", "namespaced.yaml", "unusual-values.yaml"} {
		content, err := os.ReadFile("../differential/testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range bytes.Split(content, []byte("\n---\n")) {
			var head runtime.TypeMeta
			if err := yaml.Unmarshal(document, &head); err != nil {
				t.Fatal(err)
			}
			v := byKind[head.APIVersion+" "+head.Kind]
			if v == nil || v.tables == nil {
				continue
			}
			document = bytes.ReplaceAll(bytes.ReplaceAll(document, []byte("$NS"), []byte("team")), []byte("$N"), []byte("1"))
			if _, err := runtime.Decode(v.codecs.UniversalDeserializer(), document); err != nil {
				continue // It has other placeholders.
			}
			stored, err := v.storeAsIs(v.admitted(t, document))
			if err != nil {
				t.Fatal(err)
			}
			found[v.kind.String()] = append(found[v.kind.String()], stored)
		}
	}
	addFilled(t, found)
	return found
}

// addFilled adds objects of package fill.
func addFilled(t *testing.T, found map[string][][]byte) {
	t.Helper()
	g, err := fill.NewGenerator(fill.Shape{Pods: 200, Secrets: 20, ConfigMaps: 20, PodSize: 8000})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		for _, obj := range []fill.Object{g.Pod(i), g.Secret(i), g.ConfigMap(i), g.Node(i % 2), g.ServiceAccount(0), g.Namespace(0)} {
			stored, err := fill.EncodeStored(obj)
			if err != nil {
				t.Fatal(err)
			}
			kind := obj.GetObjectKind().GroupVersionKind().String()
			found[kind] = append(found[kind], stored)
		}
	}
}
