package crd_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/millrace/millrace/internal/apiserver/crd"
)

const definitionsPrefix = "/registry/apiextensions.k8s.io/customresourcedefinitions/"

// stored returns a definition as etcd has it.
func (f *fixture) stored(t *testing.T, key string) []byte {
	t.Helper()
	resp, err := f.client.Client.Get(t.Context(), definitionsPrefix+key)
	must(t, err)
	if len(resp.Kvs) != 1 {
		t.Fatalf("etcd has %d values of %s", len(resp.Kvs), key)
	}
	return resp.Kvs[0].Value
}

func (f *fixture) write(t *testing.T, key string, value []byte) {
	t.Helper()
	_, err := f.client.Client.Put(t.Context(), definitionsPrefix+key, string(value))
	must(t, err)
}

// unreadable waits until exactly these keys cannot be read.
func (f *fixture) unreadable(t *testing.T, keys ...string) {
	t.Helper()
	eventually(t, func() error {
		found := f.catalog.Unreadable()
		for _, key := range keys {
			if found[key] == nil {
				return fmt.Errorf("%s is not unreadable, but %v", key, found)
			}
		}
		if len(found) != len(keys) {
			return fmt.Errorf("unreadable are %v, want %v", found, keys)
		}
		return nil
	})
}

// TestDefinitionUnderAnotherKey writes a definition under a key that is not its name. It has no
// row, changes no other row, and leaves no trace.
func TestDefinitionUnderAnotherKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.define(t, "things", "a.example", "color")
	before := f.row(t, "things.a.example", exists)
	other := bytes.ReplaceAll(f.stored(t, "things.a.example"), []byte("things"), []byte("others"))
	f.write(t, "another.a.example", other)
	f.write(t, "copy.a.example", f.stored(t, "things.a.example"))
	f.unreadable(t, "another.a.example", "copy.a.example")
	if len(f.catalog.All()) != 1 || f.catalog.Get("things.a.example") != before {
		t.Errorf("rows are %v, want the one from before", f.catalog.All())
	}
	f.reload()
	f.unreadable(t, "another.a.example", "copy.a.example")
	_, err := f.client.Client.Delete(t.Context(), definitionsPrefix+"another.a.example")
	must(t, err)
	_, err = f.client.Client.Delete(t.Context(), definitionsPrefix+"copy.a.example")
	must(t, err)
	f.unreadable(t)
	if len(f.catalog.All()) != 1 {
		t.Errorf("rows are %v, want the one from before", f.catalog.All())
	}
}

// TestSpecThatCannotBeDecoded gives a definition in use a schema that cannot be decoded. Its row
// stays as it was, until the definition is repaired or deleted.
func TestSpecThatCannotBeDecoded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.define(t, "things", "a.example", "color")
	before := f.row(t, "things.a.example", exists)
	good := f.stored(t, "things.a.example")
	bad := bytes.ReplaceAll(good, []byte(`"type":"object"`), []byte(`"type":5`))
	if bytes.Equal(good, bad) {
		t.Fatalf("the stored definition has no type: %s", good)
	}
	f.write(t, "things.a.example", bad)
	f.unreadable(t, "things.a.example")
	if f.catalog.Get("things.a.example") != before {
		t.Errorf("the row is %+v, want the one from before", f.catalog.Get("things.a.example"))
	}
	f.write(t, "things.a.example", good)
	f.unreadable(t)
	f.row(t, "things.a.example", func(d *crd.Definition) bool { return d.Revision > before.Revision })
	f.write(t, "things.a.example", []byte("\xd9\xd9\xf7\xa1\x61a\x61a"))
	f.unreadable(t, "things.a.example")
	_, err := f.client.Client.Delete(t.Context(), definitionsPrefix+"things.a.example")
	must(t, err)
	f.unreadable(t)
	f.row(t, "things.a.example", func(d *crd.Definition) bool { return d == nil })
}
