//! The fields of an object, with a way to find one by its name.

use std::ops::Deref;
use std::sync::OnceLock;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::model::Field;

/// The known fields of an object, sorted by name.
///
/// Every walk over a document asks for the field of every key it meets. So where a name hashes to
/// is worked out once, when somebody first asks.
#[derive(Debug, Clone, Default)]
pub struct Fields {
    list: Vec<Field>,
    places: OnceLock<Places>,
}

impl Fields {
    /// The field with the given name.
    pub fn find(&self, name: &str) -> Option<&Field> {
        let places = match self.places.get() {
            Some(places) => places,
            None => self.places.get_or_init(|| Places::of(&self.list)),
        };
        places.find(&self.list, name)
    }

    /// The list, to be changed. It has to stay sorted.
    pub fn list_mut(&mut self) -> &mut Vec<Field> {
        self.places = OnceLock::new();
        &mut self.list
    }
}

impl From<Vec<Field>> for Fields {
    fn from(list: Vec<Field>) -> Self {
        Self {
            list,
            places: OnceLock::new(),
        }
    }
}

impl Deref for Fields {
    type Target = [Field];

    fn deref(&self) -> &[Field] {
        &self.list
    }
}

impl<'f> IntoIterator for &'f Fields {
    type Item = &'f Field;
    type IntoIter = std::slice::Iter<'f, Field>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.iter()
    }
}

impl PartialEq for Fields {
    fn eq(&self, other: &Self) -> bool {
        self.list == other.list
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.list.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::from)
    }
}

/// A hash table of positions in the list. A name is in the slot of its hash, or in one of those
/// that follow up to an empty one.
#[derive(Debug, Clone, Default)]
struct Places {
    slots: Box<[u16]>,
}

/// The slot of no field. So many fields are not told apart by the table.
const EMPTY: u16 = u16::MAX;

impl Places {
    fn of(list: &[Field]) -> Self {
        if list.is_empty() || list.len() >= usize::from(EMPTY) {
            return Self::default();
        }
        let mut slots = vec![EMPTY; (list.len() * 3).next_power_of_two()].into_boxed_slice();
        let mask = slots.len() - 1;
        for (position, field) in (0_u16..).zip(list) {
            let mut slot = hash(&field.name) & mask;
            while slots[slot] != EMPTY {
                slot = (slot + 1) & mask;
            }
            slots[slot] = position;
        }
        Self { slots }
    }

    fn find<'f>(&self, list: &'f [Field], name: &str) -> Option<&'f Field> {
        if self.slots.is_empty() {
            let at = list.binary_search_by(|field| field.name.as_str().cmp(name));
            return list.get(at.ok()?);
        }
        let mask = self.slots.len() - 1;
        let mut slot = hash(name) & mask;
        loop {
            // An empty slot is the position of no field.
            let field = list.get(usize::from(self.slots[slot & mask]))?;
            if field.name == name {
                return Some(field);
            }
            slot += 1;
        }
    }
}

/// The names of one object differ in their length or in one of three letters nearly always.
fn hash(name: &str) -> usize {
    let bytes = name.as_bytes();
    let at = |index: usize| usize::from(bytes.get(index).copied().unwrap_or_default());
    let last = bytes.len().wrapping_sub(1);
    let mixed = bytes.len() ^ (at(0) << 4) ^ (at(bytes.len() / 2) << 9) ^ (at(last) << 14);
    mixed.wrapping_mul(0x9E37_79B1) >> 15
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TypeId;

    fn fields(names: &[String]) -> Fields {
        let mut names = names.to_vec();
        names.sort();
        let field = |name: &String| Field {
            name: name.into(),
            type_id: TypeId(0),
            required: false,
            default: None,
            patch: None,
            map_type: None,
            wire: None,
        };
        Fields::from(names.iter().map(field).collect::<Vec<_>>())
    }

    #[test]
    fn every_name_is_found_and_no_other() {
        for count in [0, 1, 2, 3, 7, 8, 9, 40, 300] {
            // Names of the same letters at both ends, to fall into the same slots.
            let names: Vec<String> = (0..count).map(|n| format!("a{n}b{}c", n % 7)).collect();
            let fields = fields(&names);
            for name in &names {
                assert_eq!(fields.find(name).map(|f| f.name.as_str()), Some(&**name));
            }
            for name in ["", "a", "abc", "a0b1c", "a0b0", "ä", "a99999b0c"] {
                assert!(fields.find(name).is_none(), "{name} of {count}");
            }
        }
    }

    #[test]
    fn a_changed_list_is_looked_at_anew() {
        let mut known = fields(&["b".to_owned(), "c".to_owned()]);
        assert!(known.find("b").is_some());
        known.list_mut()[0].name = "a".into();
        assert!(known.find("b").is_none());
        assert!(known.find("a").is_some());
    }

    #[test]
    fn too_many_for_the_table_are_found_too() {
        let names: Vec<String> = (0..70_000).map(|n| format!("n{n}")).collect();
        let fields = fields(&names);
        assert_eq!(
            fields.find("n69999").map(|f| f.name.as_str()),
            Some("n69999")
        );
        assert!(fields.find("n70000").is_none());
    }

    #[test]
    fn built_in_types_find_all_their_fields() {
        for (_, node) in crate::builtin().types().iter() {
            for field in node
                .as_object()
                .map(|object| &object.fields)
                .into_iter()
                .flatten()
            {
                let object = node.as_object();
                assert_eq!(
                    object.and_then(|object| object.field(&field.name)),
                    Some(field)
                );
            }
        }
    }
}
