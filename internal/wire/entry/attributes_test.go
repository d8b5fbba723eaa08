package entry_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace/millrace/internal/wire/entry"
)

// TestMatchesAgreesWithSets compares matches of attributes with those of Kubernetes' maps.
func TestMatchesAgreesWithSets(t *testing.T) {
	labelSets := []labels.Set{nil, {"app": "web"}, {"app": "web", "tier": ""}, {"app": "db", "tier": "back"}}
	fieldSets := []fields.Set{{}, {"spec.nodeName": "n1"}, {"spec.nodeName": "", "status.phase": "Running"}}
	labelSelectors := []string{"", "app", "!app", "app=web", "app!=web", "app in (web,db)", "app notin (web)", "tier", "tier=", "app=web,tier"}
	fieldSelectors := []string{"", "metadata.name=a", "metadata.name!=a", "metadata.namespace=ns", "spec.nodeName=n1", "spec.nodeName=", "status.phase!=Running", "absent=", "absent=x"}
	for _, key := range []string{"ns/a", "other/b", "a"} {
		for _, l := range labelSets {
			for _, f := range fieldSets {
				e := &entry.Entry{Key: key, Attributes: entry.NewAttributes(l, f)}
				whole := fields.Set{"metadata.name": e.Name(), "metadata.namespace": e.Namespace()}
				for k, v := range f {
					whole[k] = v
				}
				for _, ls := range labelSelectors {
					for _, fs := range fieldSelectors {
						labelSelector, err := labels.Parse(ls)
						if err != nil {
							t.Fatal(err)
						}
						fieldSelector := fields.ParseSelectorOrDie(fs)
						want := labelSelector.Matches(l) && fieldSelector.Matches(whole)
						if got := e.Matches(labelSelector, fieldSelector); got != want {
							t.Errorf("key %s, labels %v, fields %v: selectors %q and %q match: %v, want %v", key, l, f, ls, fs, got, want)
						}
					}
				}
			}
		}
	}
}

func TestKeyParts(t *testing.T) {
	for key, want := range map[string][2]string{"ns/name": {"ns", "name"}, "name": {"", "name"}} {
		e := &entry.Entry{Key: key}
		if got := [2]string{e.Namespace(), e.Name()}; got != want {
			t.Errorf("parts of %q = %q, want %q", key, got, want)
		}
	}
}
