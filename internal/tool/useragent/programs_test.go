package useragent

import (
	"testing"

	"github.com/millrace/millrace/internal/tool/price"
)

// TestCaseOfLibraries checks that both functions recognise a library whatever its case is.
func TestCaseOfLibraries(t *testing.T) {
	for name, isLibrary := range map[string]bool{"python-requests": true, "Python-Requests": true, "curl": true, "shop": false} {
		if got := IdentifiesWorkload(name); got == isLibrary {
			t.Errorf("%s identifies a workload: %t", name, got)
		}
		if encoding, known := Encoding(name, "list", "pods", nil); encoding != price.JSON || known != isLibrary {
			t.Errorf("%s requests %s, known: %t", name, encoding, known)
		}
	}
}

func TestEncoding(t *testing.T) {
	overrides := map[string]string{"shop": price.Protobuf, "curl": price.Table}
	for _, test := range []struct {
		program, verb, resource, want string
		known                         bool
	}{
		{"kubelet", "watch", "pods", price.Protobuf, true},
		{"kubelet", "watch", "widgets.example.com", price.JSON, true},
		{KubectlProgram, "list", "pods", price.Table, true},
		{KubectlProgram, "watch", "pods", price.JSON, false},
		{"shop", "list", "pods", price.Protobuf, true},
		{"shop", "list", "widgets.example.com", price.JSON, true},
		{"curl", "list", "pods", price.Table, true},
		{"shop2", "list", "pods", price.JSON, false},
	} {
		encoding, known := Encoding(test.program, test.verb, test.resource, overrides)
		if encoding != test.want || known != test.known {
			t.Errorf("%+v: got %s, known: %t", test, encoding, known)
		}
	}
}
