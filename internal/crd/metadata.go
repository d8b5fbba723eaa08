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
func settled(metadata any) bool {
	fields, ok := metadata.(map[string]any)
	if !ok || fields == nil {
		return false
	}
	for name, value := range fields {
		ok := false
		switch name {
		case "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion":
			ok = someText(value)
		case "generation":
			n, whole := value.(int64)
			ok = whole && n != 0
		case "deletionGracePeriodSeconds":
			_, ok = value.(int64)
		case "creationTimestamp", "deletionTimestamp":
			ok = settledTime(value)
		case "labels", "annotations":
			ok = settledTexts(value)
		case "finalizers":
			ok = each(value, text)
		case "ownerReferences":
			ok = each(value, settledOwner)
		case "managedFields":
			ok = each(value, settledManager)
		}
		if !ok {
			return false
		}
	}
	return true
}

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

func settledOwner(value any) bool {
	fields, ok := value.(map[string]any)
	if !ok {
		return false
	}
	always := 0
	for name, value := range fields {
		switch name {
		case "apiVersion", "kind", "name", "uid": // are written when they are empty
			always++
			ok = text(value)
		case "controller", "blockOwnerDeletion":
			_, ok = value.(bool)
		default:
			ok = false
		}
		if !ok {
			return false
		}
	}
	return always == 4
}

func settledManager(value any) bool {
	fields, ok := value.(map[string]any)
	if !ok || fields == nil {
		return false
	}
	for name, value := range fields {
		switch name {
		case "manager", "operation", "apiVersion", "fieldsType", "subresource":
			ok = someText(value)
		case "time":
			ok = settledTime(value)
		case "fieldsV1":
			ok = settledFields(value)
		default:
			ok = false
		}
		if !ok {
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
