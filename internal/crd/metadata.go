package crd

import (
	"time"
	"unicode/utf8"
)

// settled reports whether metadata is sure to come out of Kubernetes' ObjectMeta as it
// goes in (schemaobjectmeta.GetObjectMeta, SetObjectMeta): it has no field that is
// unknown, malformed or empty. That of nearly all stored objects is; for others nothing
// is said. To go through that type, each time that an object is decoded or converted, is
// a fifth of the CPU of a write.
func settled(metadata any) bool { return metadataRules.hold(metadata) }

// rules say by name how a field's value has to be. There may be no others.
type rules map[string]func(any) bool

func (r rules) hold(value any) bool {
	fields, ok := value.(map[string]any)
	if !ok || fields == nil {
		return false
	}
	for name, value := range fields {
		if holds := r[name]; holds == nil || !holds(value) {
			return false
		}
	}
	return true
}

var (
	metadataRules = rules{
		"name": someText, "generateName": someText, "namespace": someText, "selfLink": someText, "uid": someText, "resourceVersion": someText,
		"generation":                 func(value any) bool { return number(value) && value != int64(0) },
		"deletionGracePeriodSeconds": number,
		"creationTimestamp":          settledTime, "deletionTimestamp": settledTime,
		"labels": settledTexts, "annotations": settledTexts,
		"finalizers":      func(value any) bool { return each(value, text) },
		"ownerReferences": func(value any) bool { return each(value, settledOwner) },
		"managedFields":   func(value any) bool { return each(value, managerRules.hold) },
	}
	ownerRules = rules{
		"apiVersion": text, "kind": text, "name": text, "uid": text,
		"controller": truth, "blockOwnerDeletion": truth,
	}
	managerRules = rules{
		"manager": someText, "operation": someText, "apiVersion": someText, "fieldsType": someText, "subresource": someText,
		"time": settledTime, "fieldsV1": settledFields,
	}
)

func number(value any) bool { _, ok := value.(int64); return ok }
func truth(value any) bool  { _, ok := value.(bool); return ok }

// text is a string as JSON can have it.
func text(value any) bool {
	s, ok := value.(string)
	return ok && utf8.ValidString(s)
}

// someText is one that is not left out for being empty.
func someText(value any) bool { return text(value) && value != "" }

// settledTime is as metav1.Time writes it, and not its zero value.
func settledTime(value any) bool {
	const written, zero = "2006-01-02T15:04:05Z", "0001-01-01T00:00:00Z"
	s, ok := value.(string)
	if !ok || len(s) != len(written) || s[len(s)-1] != 'Z' || s == zero {
		return false
	}
	_, err := time.Parse(time.RFC3339, s)
	return err == nil
}

func settledTexts(value any) bool {
	texts, ok := value.(map[string]any)
	if !ok || len(texts) == 0 {
		return false
	}
	for key, value := range texts {
		if !utf8.ValidString(key) || !text(value) {
			return false
		}
	}
	return true
}

// each is a list with something in it.
func each(value any, settled func(any) bool) bool {
	list, ok := value.([]any)
	if !ok || len(list) == 0 {
		return false
	}
	for _, v := range list {
		if !settled(v) {
			return false
		}
	}
	return true
}

// settledOwner has all of the names that are written also when they are empty.
func settledOwner(value any) bool {
	if !ownerRules.hold(value) {
		return false
	}
	for _, name := range []string{"apiVersion", "kind", "name", "uid"} {
		if _, there := value.(map[string]any)[name]; !there {
			return false
		}
	}
	return true
}

// settledFields is a set of fields: maps all the way down.
func settledFields(value any) bool {
	fields, ok := value.(map[string]any)
	if !ok || fields == nil {
		return false
	}
	for name, inside := range fields {
		if !utf8.ValidString(name) || !settledFields(inside) {
			return false
		}
	}
	return true
}
