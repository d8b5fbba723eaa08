package crd

import (
	"encoding/json"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// TestWithoutDescriptions sees that texts are removed wherever a schema may stand, and
// that nothing else is.
func TestWithoutDescriptions(t *testing.T) {
	const schema = `{WORDS "type":"object","properties":{
		"list":{WORDS "type":"array","items":{WORDS "type":"string"}},
		"map":{WORDS "type":"object","additionalProperties":{WORDS "type":"string"}},
		"description":{WORDS "type":"string","default":"description"},
		"junction":{WORDS "allOf":[{WORDS "minLength":1}],"anyOf":[{WORDS "minLength":2}],"oneOf":[{WORDS "minLength":3}],"not":{WORDS "minLength":4}}
	}}`
	parse := func(words string) *apiextensionsv1.JSONSchemaProps {
		made := &apiextensionsv1.JSONSchemaProps{}
		if err := json.Unmarshal([]byte(strings.ReplaceAll(schema, "WORDS", words)), made); err != nil {
			t.Fatal(err)
		}
		return made
	}
	with, without := parse(`"description":"what","title":"it","example":"is","externalDocs":{"url":"about"},`), parse("")
	withoutDescriptions(with)
	got, err := json.Marshal(with)
	if err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(without)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	withoutDescriptions(nil) // of a version without schema
}
