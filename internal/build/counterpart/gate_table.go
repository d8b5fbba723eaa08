package counterpart

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// GatesFile is the document with the table of feature gates, relative to the module's
// root. People write it; CheckGates says what is missing.
const GatesFile = "docs/design/feature-gates.md"

// gateRow matches the beginning of a row of the table: gate and state.
var gateRow = regexp.MustCompile("(?m)^\\| `(\\w+)` \\| ([^|]+) \\|")

// CheckGates compares the table of feature gates with Kubernetes' gates and with the code
// that consults them, and returns a message for each difference.
func CheckGates(document []byte, modules *Modules, ours gateUse) ([]string, error) {
	gates, err := modules.allGates()
	if err != nil {
		return nil, err
	}
	theirs, err := modules.readPathGates()
	if err != nil {
		return nil, err
	}
	version := modules.Version(kubernetes)
	var messages []string
	states := map[string]string{} // by gate; "reported" once a missing row was reported
	for _, row := range gateRow.FindAllSubmatch(document, -1) {
		name, state := string(row[1]), strings.TrimSpace(string(row[2]))
		gate, exists := gates[name]
		switch {
		case states[name] != "":
			messages = append(messages, fmt.Sprintf("%s has two rows for %s: remove one.", GatesFile, name))
		case !exists:
			messages = append(messages, fmt.Sprintf("%s has %s, which Kubernetes %s does not have: remove the row, and the code that consults the gate.", GatesFile, name, version))
		case state != gate.String():
			messages = append(messages, fmt.Sprintf("%s says %q of %s, which is %q in Kubernetes %s: check what the row says, and correct it.", GatesFile, state, name, gate, version))
		}
		states[name] = state
	}
	for _, use := range []gateUse{ours, theirs} {
		for _, name := range slices.Sorted(maps.Keys(use)) {
			if _, isGate := gates[name]; isGate && states[name] == "" {
				states[name] = "reported"
				messages = append(messages, fmt.Sprintf("%s lacks %s (%s), which %s consults: add a row with what it changes for clients.", GatesFile, name, gates[name], use[name]))
			}
		}
	}
	return messages, nil
}
