package release

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

const (
	repository    = "https://github.com/millrace/millrace"
	predicateType = "https://slsa.dev/provenance/v1"
	// buildType is the document that explains the parameters.
	buildType = repository + "/blob/main/docs/releases.md"
	// builder stands for `make release`, run by a person. The machine is as trustworthy as the
	// person.
	builder = repository + "/internal/build/release"
)

// addProvenance adds a statement that names the files so far, and the source and the tools that
// made them.
func (r *release) addProvenance(context.Context) error {
	source := &r.cfg.Source
	subjects := make([]*intoto.ResourceDescriptor, 0, len(r.files))
	for _, name := range r.names() {
		subjects = append(subjects, &intoto.ResourceDescriptor{Name: name, Digest: map[string]string{"sha256": digest(r.files[name])}})
	}
	external, err := structpb.NewStruct(map[string]any{"version": source.Version, "ldflags": r.cfg.LDFlags, "modified": source.Modified})
	if err != nil {
		return fmt.Errorf("make provenance: %w", err)
	}
	predicate, err := asStruct(&provenance.Provenance{
		BuildDefinition: &provenance.BuildDefinition{
			BuildType: buildType, ExternalParameters: external,
			ResolvedDependencies: []*intoto.ResourceDescriptor{
				{Uri: "git+" + repository + "@" + source.Revision, Digest: map[string]string{"gitCommit": source.Revision}},
				{Name: "roots of trust in the image", Digest: map[string]string{"sha256": digest(r.cfg.Roots)}},
			},
		},
		RunDetails: &provenance.RunDetails{Builder: &provenance.Builder{Id: builder, Version: map[string]string{"go": r.goVersion}}},
	})
	if err != nil {
		return err
	}
	r.files[provenanceFile], err = marshal(&intoto.Statement{Type: intoto.StatementTypeUri, Subject: subjects, PredicateType: predicateType, Predicate: predicate})
	return err
}

func digest(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

// marshal returns a message as indented JSON. Indentation also removes the spaces that package
// protojson inserts at random.
func marshal(message proto.Message) ([]byte, error) {
	data, err := protojson.Marshal(message)
	if err != nil {
		return nil, fmt.Errorf("encode provenance: %w", err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, data, "", "  "); err != nil {
		return nil, fmt.Errorf("encode provenance: %w", err)
	}
	return append(out.Bytes(), '\n'), nil
}

// asStruct returns a message as a JSON object, the type of a statement's predicate.
func asStruct(message proto.Message) (*structpb.Struct, error) {
	data, err := marshal(message)
	if err != nil {
		return nil, err
	}
	var object structpb.Struct
	if err := protojson.Unmarshal(data, &object); err != nil {
		return nil, fmt.Errorf("decode provenance: %w", err)
	}
	return &object, nil
}

// readProvenance returns the digests of the files that a statement names, by name. An invalid
// statement is an error.
func readProvenance(data []byte) (map[string]string, error) {
	var statement intoto.Statement
	if err := protojson.Unmarshal(data, &statement); err != nil {
		return nil, fmt.Errorf("decode provenance: %w", err)
	}
	if err := statement.Validate(); err != nil {
		return nil, fmt.Errorf("validate statement: %w", err)
	}
	encoded, err := protojson.Marshal(statement.GetPredicate())
	if err != nil {
		return nil, fmt.Errorf("encode provenance: %w", err)
	}
	var predicate provenance.Provenance
	if err := protojson.Unmarshal(encoded, &predicate); err != nil {
		return nil, fmt.Errorf("decode provenance: %w", err)
	}
	if err := predicate.Validate(); err != nil {
		return nil, fmt.Errorf("validate provenance: %w", err)
	}
	digests := map[string]string{}
	for _, subject := range statement.GetSubject() {
		digests[subject.GetName()] = subject.GetDigest()["sha256"]
	}
	return digests, nil
}
