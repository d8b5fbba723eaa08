package crd

import (
	"time"
	"unicode/utf8"
)

// metadataRoundTrips reports whether metadata is sure to come out of Kubernetes' ObjectMeta as it
// goes in (schemaobjectmeta.GetObjectMeta, SetObjectMeta): it has no field that is
// unknown, malformed or empty. That of nearly all stored objects is; for others nothing
// is said. To go through that type, each time that an object is decoded or converted, is
// a fifth of the CPU of a write.
func metadataRoundTrips(metadata any) bool { return metadataRules.allow(metadata) }

// fieldRules say by name how a field's value has to be. There may be no others.
type fieldRules map[string]func(any) bool

func (r fieldRules) allow(value any) bool {
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
	metadataRules = fieldRules{
		"name": nonEmptyText, "generateName": nonEmptyText, "namespace": nonEmptyText, "selfLink": nonEmptyText, "uid": nonEmptyText, "resourceVersion": nonEmptyText,
		"generation":                 func(value any) bool { return integer(value) && value != int64(0) },
		"deletionGracePeriodSeconds": integer,
		"creationTimestamp":          canonicalTime, "deletionTimestamp": canonicalTime,
		"labels": textMap, "annotations": textMap,
		"finalizers":      func(value any) bool { return nonEmptyList(value, text) },
		"ownerReferences": func(value any) bool { return nonEmptyList(value, ownerReference) },
		"managedFields":   func(value any) bool { return nonEmptyList(value, managerRules.allow) },
	}
	ownerRules = fieldRules{
		"apiVersion": text, "kind": text, "name": text, "uid": text,
		"controller": boolean, "blockOwnerDeletion": boolean,
	}
	managerRules = fieldRules{
		"manager": nonEmptyText, "operation": nonEmptyText, "apiVersion": nonEmptyText, "fieldsType": nonEmptyText, "subresource": nonEmptyText,
		"time": canonicalTime, "fieldsV1": fieldTree,
	}
)

func integer(value any) bool { _, ok := value.(int64); return ok }
func boolean(value any) bool  { _, ok := value.(bool); return ok }

// text is a string as JSON can have it.
func text(value any) bool {
	s, ok := value.(string)
	return ok && utf8.ValidString(s)
}

// nonEmptyText is one that is not left out for being empty.
func nonEmptyText(value any) bool { return text(value) && value != "" }

// canonicalTime is as metav1.Time writes it, and not its zero value.
func canonicalTime(value any) bool {
	const written, zero = "2006-01-02T15:04:05Z", "0001-01-01T00:00:00Z"
	s, ok := value.(string)
	if !ok || len(s) != len(written) || s[len(s)-1] != 'Z' || s == zero {
		return false
	}
	_, err := time.Parse(time.RFC3339, s)
	return err == nil
}

func textMap(value any) bool {
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

// nonEmptyList is a list with something in it.
func nonEmptyList(value any, settled func(any) bool) bool {
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

// ownerReference has all of the names that are written also when they are empty.
func ownerReference(value any) bool {
	if !ownerRules.allow(value) {
		return false
	}
	for _, name := range []string{"apiVersion", "kind", "name", "uid"} {
		if _, there := value.(map[string]any)[name]; !there {
			return false
		}
	}
	return true
}

// fieldTree is a set of fields: maps all the way down.
func fieldTree(value any) bool {
	fields, ok := value.(map[string]any)
	if !ok || fields == nil {
		return false
	}
	for name, inside := range fields {
		if !utf8.ValidString(name) || !fieldTree(inside) {
			return false
		}
	}
	return true
}
