package watch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

const acceptMetadata = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

// informerForms returns the values of --forms. The first form is the default.
func informerForms() []streamForm {
	return []streamForm{
		{name: "json", accept: testbed.AcceptJSON},
		{name: "json-gzip", accept: testbed.AcceptJSON, encoding: testbed.EncodingGzip},
		{name: "protobuf", accept: acceptWatchProtobuf},
		{name: "protobuf-gzip", accept: acceptWatchProtobuf, encoding: testbed.EncodingGzip},
		{name: "metadata", accept: testbed.AcceptJSON + acceptMetadata},
		{name: "metadata-gzip", accept: testbed.AcceptJSON + acceptMetadata, encoding: testbed.EncodingGzip},
		{name: "metadata-protobuf", accept: acceptWatchProtobuf + acceptMetadata},
	}
}

// informerFormNames returns the names of informerForms.
func informerFormNames() (names []string) {
	for _, f := range informerForms() {
		names = append(names, f.name)
	}
	return names
}

// expandForms returns each workload in each of the named forms. It returns an error for an unknown
// name.
func expandForms(specs []informerWorkload, names []string) ([]informerWorkload, error) {
	for _, name := range names {
		if !slices.Contains(informerFormNames(), name) {
			return nil, fmt.Errorf("--forms=%s: choose among %s", name, strings.Join(informerFormNames(), ", "))
		}
	}
	var all []informerWorkload
	for _, s := range specs {
		for i, f := range informerForms() {
			if !slices.Contains(names, f.name) {
				continue
			}
			s := s
			if s.form = f; i > 0 {
				s.name += "-" + f.name
			}
			all = append(all, s)
		}
	}
	return all, nil
}
