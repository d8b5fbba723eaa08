package auditlog

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Form is how a log wraps events.
type Form string

// FormAny takes every event that is found in any wrapping. The others look into the
// wrappings of one source of logs alone.
const (
	FormAny        Form = "any"
	FormEvents     Form = "events"
	FormCloudWatch Form = "cloudwatch"
	FormAzure      Form = "azure"
	FormGoogle     Form = "google"
	FormContainer  Form = "container"
	FormShipper    Form = "shipper"
)

// Forms lists the forms that a user may choose.
func Forms() []string {
	var all []string
	for _, f := range []Form{FormAny, FormEvents, FormCloudWatch, FormAzure, FormGoogle, FormContainer, FormShipper} {
		all = append(all, string(f))
	}
	return all
}

// CheckForm returns an error for a form that there is not.
func CheckForm(f Form) error {
	if f == "" || slices.Contains(Forms(), string(f)) {
		return nil
	}
	return fmt.Errorf("--log-form=%s: choose one of %s", f, strings.Join(Forms(), ", "))
}

// wrapperField is a field of a JSON object that has events in it.
type wrapperField struct {
	key string
	// list says that the field is a list of records. Else it is one record, as an object or as
	// text.
	list  bool
	forms []Form
}

const (
	// textBefore stands for text in front of JSON on a line.
	textBefore = "TEXT"
	// googlePayload has an event in a shape of its own.
	googlePayload = "protoPayload"
	// piecesKey is the field whose texts are pieces of lines, at Docker's logs.
	piecesKey = "log"
)

// wrappings are those of audit.k8s.io's EventList; of what CloudWatch exports, filters and
// subscribes to; of Azure's diagnostic settings; of Google's Cloud Logging; of the logs of
// containers (CRI, Docker); and of Fluent Bit, Filebeat, Elasticsearch and Splunk.
var wrappings = []wrapperField{
	{"items", true, []Form{FormEvents}},
	{"logEvents", true, []Form{FormCloudWatch}},
	{"events", true, []Form{FormCloudWatch}},
	{"records", true, []Form{FormAzure}},
	{"message", false, []Form{FormCloudWatch, FormShipper}},
	{"properties", false, []Form{FormAzure}},
	{piecesKey, false, []Form{FormAzure, FormContainer, FormShipper}},
	{googlePayload, false, []Form{FormGoogle}},
	{"jsonPayload", false, []Form{FormGoogle}},
	{"_source", false, []Form{FormShipper}},
	{"_raw", false, []Form{FormShipper}},
	{"kubernetes", false, []Form{FormShipper}},
	{"audit", false, []Form{FormShipper}},
	{textBefore, false, []Form{FormCloudWatch, FormContainer}},
}

// keys returns the fields that may have events in a form, and whether each is a list.
func (f Form) keys() map[string]bool {
	keys := map[string]bool{}
	for _, w := range wrappings {
		if f == "" || f == FormAny || slices.Contains(w.forms, f) || slices.Contains(w.forms, FormEvents) {
			keys[w.key] = w.list
		}
	}
	return keys
}

// AddFormFlag adds the flag with which a user names a form.
func AddFormFlag(set *pflag.FlagSet, f *Form) {
	set.StringVar((*string)(f), "log-form", string(FormAny), "how the log wraps events, if looking finds too much or too little: one of "+strings.Join(Forms(), ", "))
}
