//! What is in a map, one after the other.

use std::collections::btree_map;
use std::{slice, vec};

use crate::{Text, Value};

/// Keys and values.
#[derive(Debug, Clone)]
pub enum Iter<'m> {
    /// Of a list.
    List(slice::Iter<'m, (Text, Value)>),
    /// Of a tree.
    Tree(btree_map::Iter<'m, Text, Value>),
}

/// Keys and values, these to be changed.
#[derive(Debug)]
pub enum IterMut<'m> {
    /// Of a list.
    List(slice::IterMut<'m, (Text, Value)>),
    /// Of a tree.
    Tree(btree_map::IterMut<'m, Text, Value>),
}

/// Keys and values that belong to nobody else.
#[derive(Debug)]
pub enum IntoIter {
    /// Of a list.
    List(vec::IntoIter<(Text, Value)>),
    /// Of a tree.
    Tree(btree_map::IntoIter<Text, Value>),
}

macro_rules! iterate {
    ($name:ty, $item:ty, $listed:expr) => {
        impl<'m> Iterator for $name {
            type Item = $item;

            #[inline]
            fn next(&mut self) -> Option<$item> {
                match self {
                    Self::List(list) => list.next().map($listed),
                    Self::Tree(tree) => tree.next(),
                }
            }

            #[inline]
            fn size_hint(&self) -> (usize, Option<usize>) {
                match self {
                    Self::List(list) => list.size_hint(),
                    Self::Tree(tree) => tree.size_hint(),
                }
            }
        }

        impl<'m> DoubleEndedIterator for $name {
            #[inline]
            fn next_back(&mut self) -> Option<$item> {
                match self {
                    Self::List(list) => list.next_back().map($listed),
                    Self::Tree(tree) => tree.next_back(),
                }
            }
        }

        impl<'m> ExactSizeIterator for $name {}
    };
}
iterate!(Iter<'m>, (&'m Text, &'m Value), |(key, value)| (key, value));
iterate!(IterMut<'m>, (&'m Text, &'m mut Value), |(key, value)| (
    &*key, value
));

impl Iterator for IntoIter {
    type Item = (Text, Value);

    #[inline]
    fn next(&mut self) -> Option<(Text, Value)> {
        match self {
            IntoIter::List(list) => list.next(),
            IntoIter::Tree(tree) => tree.next(),
        }
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            IntoIter::List(list) => list.size_hint(),
            IntoIter::Tree(tree) => tree.size_hint(),
        }
    }
}

impl DoubleEndedIterator for IntoIter {
    #[inline]
    fn next_back(&mut self) -> Option<(Text, Value)> {
        match self {
            IntoIter::List(list) => list.next_back(),
            IntoIter::Tree(tree) => tree.next_back(),
        }
    }
}

impl ExactSizeIterator for IntoIter {}
