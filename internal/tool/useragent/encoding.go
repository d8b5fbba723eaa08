package useragent

import (
	"fmt"
	"slices"

	"github.com/spf13/pflag"

	"github.com/millrace/millrace/internal/tool/clusterprofile"
	"github.com/millrace/millrace/internal/tool/price"
)

// Encoding returns the encoding in which a program requests a resource: price.JSON,
// price.Protobuf or price.Table. overrides has encodings by program, and wins over the lists.
// Custom resources have no protobuf, so protobuf becomes JSON for them.
//
// known is false if the program is neither in overrides nor in the lists. JSON is then assumed,
// the default of most libraries.
func Encoding(program, verb, resource string, overrides map[string]string) (encoding string, known bool) {
	encoding = price.JSON
	known = true
	switch override := overrides[program]; {
	case override != "":
		encoding = override
	case slices.Contains(protobufPrograms, program):
		encoding = price.Protobuf
	case program == KubectlProgram && verb == "list":
		encoding = price.Table
	default:
		known = isLibrary(program)
	}
	if encoding == price.Protobuf && !clusterprofile.BuiltIn(resource) {
		encoding = price.JSON
	}
	return encoding, known
}

// AddFormFlag adds the flag --form, with which a user gives the encodings of programs.
func AddFormFlag(set *pflag.FlagSet, encodings *map[string]string) {
	set.StringToStringVar(encodings, "form", nil, "encoding that a program requests, as in my-agent=protobuf; may be repeated")
}

// CheckForms returns an error if a value of --form is not an encoding.
func CheckForms(encodings map[string]string) error {
	for program, encoding := range encodings {
		if encoding != price.JSON && encoding != price.Protobuf && encoding != price.Table {
			return fmt.Errorf("--form=%s=%s: choose %s, %s or %s", program, encoding, price.JSON, price.Protobuf, price.Table)
		}
	}
	return nil
}
